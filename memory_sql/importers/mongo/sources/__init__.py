"""The sources of legacy documents: a folder of mongodump, one of mongoexport, a live server.

Read-only, one document at a time.
"""
