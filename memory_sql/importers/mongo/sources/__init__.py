"""Where legacy documents come from: a folder of mongodump, one of mongoexport, a live server. Read only, one by one."""
