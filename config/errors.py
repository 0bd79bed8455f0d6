"""Errors that the command reports in one line, without a traceback."""

from turngrid.records.process.exit_codes import Refusal


class ConfigError(Refusal):
    """A config that cannot run. The message is one line: what is wrong and what to type."""
