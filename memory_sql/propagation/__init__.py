"""Shares what a scope has learnt with wider scopes."""
