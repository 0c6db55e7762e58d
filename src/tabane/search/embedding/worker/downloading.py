"""The download process: ``python -m tabane.search.embedding.worker.downloading``, around huggingface_hub.

It lists files, authenticates, locks and follows redirects. Files are transferred over its session, because
its ``hf_hub_download`` begins again after each break, and puts a file into the cache without comparing
checksums.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any, BinaryIO

import httpx2
import msgspec
from huggingface_hub import HfApi, get_session, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import WeakFileLock, build_hf_headers, hf_raise_for_status

from tabane.search.embedding.model_files import ModelCache
from tabane.search.embedding.process_requests import (
    AGAIN,
    DownloadFailure,
    DownloadRequest,
    DownloadResult,
    DownloadSettings,
    FileRequest,
    FileStored,
    HubFile,
    ListRequest,
    ModelListing,
    asked_pause,
)
from tabane.workers.serving import LoadedService, ReportProgress, serve_loaded

_CHUNK = 1 << 20
_CONNECT = 10.0  # seconds
_CHECKSUM = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class _FileTooLong(Exception):
    """More bytes came than the list of files says."""


class _FileIncomplete(Exception):
    """The answer has not all that was asked for."""


class Downloads:
    """Requests to one hub, into one cache."""

    def __init__(self, settings: DownloadSettings) -> None:
        self._settings = settings
        token = settings.token or False  # never the one that another program has stored
        self._api = HfApi(settings.endpoint, token=token)
        self._headers = {**build_hf_headers(token=token), "Accept-Encoding": "identity"}

    def answer(self, request: DownloadRequest, progress: ReportProgress) -> DownloadResult:
        """Do what is asked. Every failure that can be expected is a result."""
        try:
            if isinstance(request, ListRequest):
                return self._listing(request)
            file, cache = request.file, ModelCache(self._settings.folder, request.model)
            blob = cache.blob(file.checksum)
            os.makedirs(os.path.dirname(blob), exist_ok=True)
            os.makedirs(cache.locks, exist_ok=True)
            with WeakFileLock(os.path.join(cache.locks, f"{file.checksum}.lock")):
                if not os.path.exists(blob):
                    part = f"{blob}.incomplete"
                    with open(part, "ab") as target:
                        if os.path.getsize(part) > request.file.size:
                            target.truncate(0)
                        while (start := os.path.getsize(part)) < request.file.size:
                            self._append(request, target, start, progress)
                    digest = (
                        hashlib.sha256() if len(file.checksum) == 64 else hashlib.sha1(usedforsecurity=False)
                    )
                    if len(file.checksum) == 40:
                        digest.update(f"blob {file.size}\0".encode())  # git counts the head of a blob in
                    with open(part, "rb+") as content:
                        while chunk := content.read(_CHUNK):
                            digest.update(chunk)
                        os.fsync(content.fileno())
                    if digest.hexdigest() != file.checksum:
                        os.unlink(part)
                        return DownloadFailure("checksum")
                    os.replace(part, blob)
            cache.link(request.commit, file.path, file.checksum)
            return FileStored()
        except HfHubHTTPError as error:
            status = error.response.status_code
            if status in AGAIN:
                return DownloadFailure("again", f"HTTP {status}", pause=asked_pause(error.response.headers))
            return DownloadFailure("declined", status=status)
        except (httpx2.HTTPError, _FileIncomplete) as error:
            return DownloadFailure("again", str(error) or type(error).__name__)
        except _FileTooLong:
            return DownloadFailure("long")
        except OSError as error:
            return DownloadFailure("disk", error.strerror or str(error))

    def _listing(self, request: ListRequest) -> DownloadResult:
        try:
            info = self._api.model_info(
                request.model, revision=request.revision, files_metadata=True, timeout=self._settings.timeout
            )
            files = [_checked(sibling) for sibling in info.siblings or ()]
            listing = msgspec.convert(
                {"type": "ModelListing", "commit": info.sha, "files": files}, ModelListing
            )
            if not re.fullmatch(r"[0-9a-f]{40}", listing.commit):
                raise ValueError(f"commit {listing.commit[:80]!r}")
        except (HfHubHTTPError, httpx2.HTTPError):
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return DownloadFailure("listing", str(error))
        return listing

    def _append(self, request: FileRequest, target: BinaryIO, start: int, progress: ReportProgress) -> None:
        file, seconds = request.file, self._settings.timeout
        url = hf_hub_url(request.model, file.path, revision=request.commit, endpoint=self._settings.endpoint)
        headers = self._headers | ({"Range": f"bytes={start}-"} if start else {})
        timeout = httpx2.Timeout(seconds, connect=min(seconds, _CONNECT))
        with get_session().stream("GET", url, headers=headers, timeout=timeout) as answer:
            continued = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
            if start and (answer.status_code != 206 or not continued or int(continued[1]) != start):
                target.truncate(0)
                start = 0
            if answer.status_code == 416:
                raise _FileIncomplete("HTTP 416")
            hf_raise_for_status(answer)
            for chunk in answer.iter_bytes():
                start += len(chunk)
                if start > file.size:
                    raise _FileTooLong
                target.write(chunk)
                progress(start.to_bytes(8, "big"))
        target.flush()
        if start < file.size:
            raise _FileIncomplete(f"HTTP {answer.status_code}")


def _checked(sibling: Any) -> HubFile:
    """Return a file of the list. Raises ValueError if its path leads elsewhere, or it has no checksum."""
    checksum = sibling.lfs.sha256 if sibling.lfs else sibling.blob_id
    file = msgspec.convert(
        {"path": sibling.rfilename, "size": sibling.size or 0, "checksum": checksum}, HubFile
    )
    if (
        file.path.startswith("/")
        or "\\" in file.path
        or any(part in ("", ".", "..") for part in file.path.split("/"))
    ):
        raise ValueError(f"path {file.path[:80]!r}")
    if not _CHECKSUM.fullmatch(file.checksum) or file.size < 0:
        raise ValueError(f"checksum of {file.path[:80]!r}")
    return file


def load(opening: bytes) -> LoadedService:
    """Return the service of the download process, for settings in MessagePack."""
    downloads = Downloads(msgspec.msgpack.decode(opening, type=DownloadSettings))
    requests: msgspec.msgpack.Decoder[DownloadRequest] = msgspec.msgpack.Decoder(DownloadRequest)

    def respond(body: bytes, progress: ReportProgress) -> bytes:
        return msgspec.msgpack.encode(downloads.answer(requests.decode(body), progress))

    return LoadedService(b"", respond)


if __name__ == "__main__":
    serve_loaded(load)
