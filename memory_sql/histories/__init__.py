"""Exports of other chat programs → documents of messages, as `memory-sql add` reads them."""
