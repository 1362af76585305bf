"""Unique 64-bit IDs over NATS."""

from ._arguments import check_prefix, check_tag
from ._batch import IdBatch
from ._client import Idworker
from ._decode import decode
from ._errors import (
    BadArgumentError,
    BadConfigError,
    BadCountError,
    BadPrefixError,
    BadReplyError,
    BadTagError,
    BufferEmptyError,
    BusyError,
    CallTimeoutError,
    ClosedError,
    ConnectFailedError,
    ConnectionEndedError,
    ErrorReplyError,
    ExhaustedError,
    IdworkerError,
    MalformedRequestError,
    NoSuchTagError,
    PermissionDeniedError,
    Reason,
    StrictTagError,
    UnavailableError,
)
from ._prefetch import Prefetcher
from ._sync import SyncIdworker, SyncPrefetcher

__version__ = "0.3.0.dev0"

__all__ = [
    "BadArgumentError",
    "BadConfigError",
    "BadCountError",
    "BadPrefixError",
    "BadReplyError",
    "BadTagError",
    "BufferEmptyError",
    "BusyError",
    "CallTimeoutError",
    "ClosedError",
    "ConnectFailedError",
    "ConnectionEndedError",
    "ErrorReplyError",
    "ExhaustedError",
    "IdBatch",
    "Idworker",
    "IdworkerError",
    "MalformedRequestError",
    "NoSuchTagError",
    "PermissionDeniedError",
    "Prefetcher",
    "Reason",
    "StrictTagError",
    "SyncIdworker",
    "SyncPrefetcher",
    "UnavailableError",
    "check_prefix",
    "check_tag",
    "decode",
]
