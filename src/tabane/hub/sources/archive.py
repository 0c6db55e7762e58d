"""Post archive of a hub: opened at startup if it exists, imported into, and searched."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict
from datetime import tzinfo
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from tabane.errors import TabaneError
from tabane.hub.context import HubContext
from tabane.hub.sources.embedding import CollectionEmbedder
from tabane.hub.stores.domain_stores import FOLDER, Stores
from tabane.hub.work.jobs import Jobs
from tabane.messages import Lang, say
from tabane.operations import Caller, Lazy, Operation, Progress
from tabane.operations.job_turns import Turn
from tabane.posts import COLLECTION, DOMAIN
from tabane.settings import Settings
from tabane.settings.files import private_folder
from tabane.wire import json

if TYPE_CHECKING:
    from tabane.hub.sources.post_uploads import PostUploads
    from tabane.hub.work.job import Job
    from tabane.posts.importing.importer import PostSources
    from tabane.posts.operations import Archive
    from tabane.posts.table import ImportPosts
    from tabane.search.engine import Collection
    from tabane.search.source import Models, SearchSource

log = logging.getLogger(__name__)

UPLOADS = "uploads"
"""The folder of uploads in the home."""

_TAKEN = "posts.imported"  # the sources of the last import that a start requested


class PostArchive:
    """The archive of one hub. Nothing is opened or created before the first request."""

    def __init__(
        self,
        context: HubContext,
        stores: Stores,
        models: Models,
        embedding: CollectionEmbedder,
        jobs: Jobs,
    ) -> None:
        self._context, self._stores, self._embedding, self._jobs = context, stores, embedding, jobs
        self._taken = context.home / FOLDER / _TAKEN
        self._importing = Turn(stores.turn("import", COLLECTION))
        self._opening: Job | None = None

        @Lazy
        def archive() -> Archive:
            from tabane.posts.operations import Archive

            return Archive(
                self._collection,
                models,
                self._zone,
                ready=lambda: self.beginning is None,
                missing=embedding.missing,
            )

        self._archive = archive

    @property
    def beginning(self) -> Job | None:
        """Return the job that has to end before all stored data can be searched."""
        opening = self._opening
        return opening if opening is not None and opening.status == "running" else None

    def open(self, sources: ImportPosts | None = None, lang: Lang = "en") -> None:
        """Open the stores, so that the first request does not wait for it; ``sources`` is imported first.

        Uploads that a hub has left that died are removed.
        """
        if (self._context.home / UPLOADS).exists():
            self.uploads.sweep()
        if sources is not None:
            from tabane.posts.table import import_title

            self._opening = self._jobs.start(
                "import_posts", import_title(sources), lambda progress: self._begin(sources, lang, progress)
            )
        elif self.there:
            title = say("Opening the archive of posts")
            self._opening = self._jobs.start("open_posts", title, self._open)

    def table(self) -> list[Operation]:
        """Return the operations on posts."""
        from tabane.posts.table import import_table, posts_table

        return [*posts_table(self._archive), *import_table(self.import_posts)]

    @cached_property
    def uploads(self) -> PostUploads:
        """Files that were sent to be imported."""
        from tabane.hub.sources.post_uploads import PostUploads  # with the first upload

        return PostUploads(self._context.home / UPLOADS)

    @property
    def there(self) -> bool:
        """Whether any post was ever stored."""
        return self._stores.holds(DOMAIN)

    @property
    def is_open(self) -> bool:
        """Whether the store is open, so that a request does not have to open it."""
        return self._stores.is_open(DOMAIN)

    @property
    def searching(self) -> SearchSource[Any]:
        """The posts as a search source."""
        return self._archive().searching

    def _zone(self) -> tzinfo:
        from tabane.text.time_zones import zone_of

        return zone_of(self._context.settings.posts_zone)

    async def _collection(self) -> Collection:
        from tabane.posts.post import SHAPE

        return await self._stores.collection(DOMAIN, SHAPE)

    async def _open(self, progress: Progress) -> dict[str, Any]:
        progress.tell(0, 1)
        await self._archive().statistics.census(await self._collection())
        self._embedding.wake(COLLECTION)
        return {}

    async def _begin(self, sources: ImportPosts, lang: Lang, progress: Progress) -> dict[str, Any]:
        """Import the sources of this start. If that fails, the existing archive is opened anyway."""
        try:
            report = await self._take(sources, lang, progress)
        except TabaneError:
            if self.there:
                await self._open(progress)
            raise
        await self._archive().statistics.census(await self._collection())
        self._embedding.wake(COLLECTION)
        return report

    async def import_posts(self, caller: Caller, params: ImportPosts, progress: Progress) -> dict[str, Any]:
        """Import posts, and return the report. Uploaded files are removed then, whatever happens.

        Raises TabaneError.
        """
        upload, lang = params.upload, caller.lang
        if upload is None:
            return await self._take(params, lang, progress)
        try:
            with self.uploads.short_errors(upload):
                paths = self.uploads.paths(upload, params.files)
                report = await self._take(structs.replace(params, files=paths, once=False), lang, progress)
        finally:
            await self.uploads.remove(upload)
        for row in report["sources"]:
            row["source"] = self.uploads.short_name(upload, row["source"])
        for row in report["bad_rows"]:
            row["file"] = self.uploads.short_name(upload, row["file"])
        return report

    async def _take(self, params: ImportPosts, lang: Lang, progress: Progress) -> dict[str, Any]:
        from tabane.hub.work.job import Job

        async with self._importing.taken(progress):
            if params.once and isinstance(progress, Job):
                self._opening = progress  # the user who starts with an archive waits for it
            # Without an import, the modules that read files are not loaded either: 30 ms and some MB.
            from tabane.posts.importing.importer import import_posts

            sources = await asyncio.to_thread(params.sources)
            mark = await asyncio.to_thread(_mark, sources)
            if params.once and self.there and await asyncio.to_thread(self._was_taken, mark):
                return {"unchanged_files": True}
            report = await import_posts(
                await self._collection(),
                sources,
                progress,
                self._zone(),
                prune=params.prune,
                report_path=params.report,
                lang=lang,
            )
            await asyncio.to_thread(self._note_taken, mark)
            self._embedding.wake(COLLECTION)
            return report.plain(lang)

    def _note_taken(self, mark: bytes) -> None:
        private_folder(self._taken.parent, parents=False)  # with a database, nothing else has made it
        self._taken.write_bytes(mark)

    def _was_taken(self, mark: bytes) -> bool:
        try:
            return self._taken.read_bytes() == mark
        except OSError:
            return False


def _mark(sources: PostSources) -> bytes:
    """Return a fingerprint of the sources: paths, sizes and times. Blocks."""
    paths = [*sources.csvs, *sources.archives, *sources.results]
    for folder in sources.folders.values():
        paths += sorted(str(path) for path in Path(folder).iterdir())
    facts = [(path, (state := Path(path).stat()).st_size, state.st_mtime_ns) for path in paths]
    return json.encode([asdict(sources), facts])


def given_archive(settings: Settings) -> ImportPosts | None:
    """Return the folders of posts that the settings name, None if they name none."""
    folders = (settings.posts_embeddings, settings.posts_reasoning, settings.posts_summary)
    embeddings, reasoning, summary = (str(folder) if folder else None for folder in folders)
    if not any(folders):
        return None
    from tabane.posts.table import ImportPosts

    return ImportPosts(embeddings=embeddings, reasoning=reasoning, summary=summary, once=True)
