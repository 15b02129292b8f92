"""Memory for agents that are made with a framework. Each module needs the extra of its name.

turns       what all of them do before and after a turn, within a time, and without failing it
"""
