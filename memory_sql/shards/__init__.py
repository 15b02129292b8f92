"""One memory over several databases: which of them an agent lives in, and what asks all of them."""
