"""What a scope has learnt, shared with wider scopes."""
