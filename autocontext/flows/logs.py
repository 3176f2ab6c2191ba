"""The library's loggers: no line and no traceback of theirs holds a secret, as far as `redact_secrets` knows it."""

from __future__ import annotations

import logging


class _WithoutSecrets(logging.Filter):
    """Changes a record only if it holds a secret: an error of a database or a service may quote one."""

    def filter(self, record: logging.LogRecord) -> bool:
        from autocontext.redaction import redact_secrets  # noqa: PLC0415 (its patterns cost what `import` spares)

        message = record.getMessage()
        if (redacted := redact_secrets(message)) != message:
            record.msg, record.args = redacted, ()
        if record.exc_info:
            traceback = record.exc_text or logging.Formatter().formatException(record.exc_info)
            if (redacted := redact_secrets(traceback)) != traceback:
                record.exc_text = redacted  # where formatters look first
        return True


_FILTER = _WithoutSecrets()


def logger(name: str) -> logging.Logger:
    """The logger with this name. A filter applies to the logger it is added to, and not to those below it."""
    log = logging.getLogger(name)
    log.addFilter(_FILTER)
    return log
