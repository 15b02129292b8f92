from contextlib import contextmanager
def docker_answers(): return False
def choose(option, environ, docker_answers): return option or ("url" if environ.get("MEMORY_SQL_TEST_URL") else "embedded")
@contextmanager
def serve(choice, environ):
    yield environ["MEMORY_SQL_TEST_URL"]
