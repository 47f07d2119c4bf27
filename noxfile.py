"""Sessions: `nox` runs them all, as CI does; `nox -s tests` is the fast one.

nox -s lint types      style and types
nox -s imports         which package may import which
nox -s tests           what takes a few minutes
nox -s slow            what kills processes, compiles TeX and opens a browser
nox -s rehearse        every study at every scale, for two steps (not run by default: 15 minutes)
nox -s devices         lines that mention a device, and which no test runs (not run by default:
                       its tests are in `tests` and `slow`, too, and take some minutes again)
nox -s lock            write constraints.txt anew (not run by default)
"""

import nox

nox.needs_version = ">=2026.10"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["lint", "types", "imports", "tests", "slow"]
nox.options.stop_on_first_error = False

CONSTRAINTS = ("--constraint", "constraints.txt")
# Without bytecode every start of Python would compile torch and Lightning again.
COMPILE = {"UV_COMPILE_BYTECODE": "1"}


@nox.session
def lint(session: nox.Session) -> None:
    """Style of the code, and nothing that ruff would format otherwise."""
    session.install(*CONSTRAINTS, "ruff")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types, strictly, of all rooms."""
    session.install(*CONSTRAINTS, "-e", ".", "mypy", env=COMPILE)
    session.run("mypy", *session.posargs)


@nox.session
def imports(session: nox.Session) -> None:
    """Which package may import which: the contracts in `pyproject.toml`."""
    session.install(*CONSTRAINTS, "-e", ".", "import-linter", env=COMPILE)
    session.run("lint-imports", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Whatever is not marked slow, nor a rehearsal."""
    _pytest(session, "not slow and not rehearsal")


@nox.session
def slow(session: nox.Session) -> None:
    """What is marked slow; what needs a missing program is skipped by name."""
    _pytest(session, "slow")


@nox.session
def devices(session: nox.Session) -> None:
    """Tests of devices, in a session of their own: torch's compiler does not read marked code."""
    session.install(*CONSTRAINTS, "-e", ".[test]", env=COMPILE)
    lines = (".nox/device-lines", *session.posargs)
    session.run("python", "-m", "benchmarks.device_coverage", "--lines", *lines)


@nox.session
def rehearse(session: nox.Session) -> None:
    """Every study at every scale; one process starts the others, as many as there are cores."""
    session.install(*CONSTRAINTS, "-e", ".[test]", env=COMPILE)
    session.run("pytest", "-m", "rehearsal", "tests/studies", *session.posargs)


@nox.session
def lock(session: nox.Session) -> None:
    """Freeze what `pyproject.toml` asks for today."""
    session.install("uv")
    session.run(
        "uv", "pip", "compile", "pyproject.toml", "--all-extras", "--universal", "--upgrade",
        "--python-version", "3.11", "--no-header", "--no-annotate", "--quiet",
        "--output-file", "constraints.txt",
    )  # fmt: skip


def _pytest(session: nox.Session, marks: str) -> None:
    session.install(*CONSTRAINTS, "-e", ".[test]", env=COMPILE)
    session.run("pytest", "-m", marks, "-n", "auto", "--dist", "loadscope", *session.posargs)
