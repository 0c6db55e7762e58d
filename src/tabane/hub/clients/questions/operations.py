"""Operations on open questions: the list, and an answer that a person gives instead of the client."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from tabane.errors import BadArguments, UnknownName
from tabane.hub.clients.questions.open_questions import OpenQuestions
from tabane.messages import say
from tabane.operations import Caller, CallTarget, NoParameters, Operation, Privilege
from tabane.upstreams.call import UpstreamReply
from tabane.wire import json
from tabane.wire.question_answers import AnswerMismatch, answer_of

REJECTED = -1
"""Code of the error that tells a server that its sampling, or its request for roots, was refused."""

_ALL = CallTarget("answer_question", source="admin", kind="operation")
"""Whoever may call this sees the questions of others, too."""


class AnswerQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, max_length=40, description="Id of the question, as listed.")]
    action: Annotated[
        Literal["accept", "decline", "cancel"],
        Meta(description="accept, with the content; decline: the user refuses; cancel: no choice was made."),
    ]
    content: Annotated[
        Any,
        Meta(
            description="With accept: the values of a form by their names, the text for a sampling, or the "
            "list of URIs for roots. Nothing for a URL."
        ),
    ] = None


class QuestionOperations:
    """Handlers over the open questions of a hub. Who is no administrator reaches those of their own calls."""

    def __init__(self, questions: OpenQuestions) -> None:
        self._questions = questions

    def table(self) -> list[Operation]:
        """Return the operations that list open questions and answer them."""
        return [
            Operation(
                "list_questions",
                "Questions of servers to their users that are not answered yet, the latest first: id, "
                "server, tool, client, kind (form, url, sampling, roots), message, schema of a form, url, "
                "and when it was asked and expires (seconds since 1970).",
                NoParameters, self._list, source="hub", privilege=Privilege.READ,
            ),
            Operation(
                "answer_question", "Answer one of these questions in place of the client.",
                AnswerQuestion, self._answer, privilege=Privilege.WRITE, source="hub",
            ),
        ]  # fmt: skip

    async def _list(self, caller: Caller, params: NoParameters) -> dict[str, Any]:
        return {"results": [question.row() for question in self._questions.of(_holder(caller))]}

    async def _answer(self, caller: Caller, params: AnswerQuestion) -> dict[str, Any]:
        found = self._questions.find(params.id, _holder(caller))
        if found is None:
            raise UnknownName(say(
                "There is no open question {id}. It may have been answered, or it has expired. List all "
                "with: tabane questions list", id=params.id))  # fmt: skip
        try:
            answer = answer_of(found.question, params.action, params.content)
        except AnswerMismatch as error:
            raise BadArguments(say("The answer does not fit the question: {why}", why=error)) from None
        if answer is None:
            found.give(UpstreamReply(error=Raw(json.error_object(REJECTED, "the user refused"))))
        else:
            found.give(UpstreamReply(result=Raw(answer)))
        return {"id": found.id, "server": found.server, "tool": found.tool, "action": params.action}


def _holder(caller: Caller) -> str | None:
    """Return whose questions a caller reaches; None for everybody's."""
    return None if caller.access.allows(_ALL) else caller.access.holder
