"""The library's loggers: no line and no traceback of theirs holds a secret, as far as `redact_secrets` knows it."""

from __future__ import annotations

import logging


class _WithoutSecrets(logging.Filter):
    """Changes a record only if it holds a secret: an error of a database or a service may quote one."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            self._redact(record)
        except Exception:  # noqa: BLE001 (a repr of somebody's object fails: no log line may break a turn)
            record.msg, record.args = "a log line that cannot be shown: an object in it fails", ()
            record.exc_info = None
        return True

    @staticmethod
    def _redact(record: logging.LogRecord) -> None:
        from autocontext.redaction import redact_secrets  # noqa: PLC0415 (its patterns cost what `import` spares)

        message = record.getMessage()
        if (redacted := redact_secrets(message)) != message:
            record.msg, record.args = redacted, ()
        if record.exc_info:
            traceback = record.exc_text or logging.Formatter().formatException(record.exc_info)
            if (redacted := redact_secrets(traceback)) != traceback:
                # Formatters look there first; others would print the exception itself.
                record.exc_text, record.exc_info = redacted, None


_FILTER = _WithoutSecrets()


def logger(name: str) -> logging.Logger:
    """The logger with this name. A filter applies to the logger it is added to, and not to those below it."""
    log = logging.getLogger(name)
    log.addFilter(_FILTER)
    return log
