"""Plans and filters as tantivy's queries.

What decides only whether a record is found is wrapped in a constant score of nothing, so that a hit's
score is the sum of its leaves'. Ranges of strings have no index: see :func:`answerable`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tantivy import FieldType, Occur, Query, Schema

from tabane.engine.query_plans import (
    AllOf,
    AnyOf,
    LexicalPlan,
    Match,
    PhraseMatch,
    PrefixMatch,
    ScoredTerm,
    TermMatch,
    needle,
)
from tabane.search import filters
from tabane.search.filters import (
    EVERYTHING,
    And,
    Contains,
    Equal,
    Everything,
    Filter,
    In,
    Not,
    Or,
    Prefix,
    Range,
)
from tabane.search.records import Kind, Scalar, Shape
from tabane.search.substrings import is_whole

PRESENT = "present"
ROW = "row"
# Characters that mean something in the expressions of tantivy (the regex-automata syntax).
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$#&\-~<>@\"]")


def field_name(name: str) -> str:
    """Return what a declared field is called in the index, apart from the spaces of texts."""
    return f"f_{name}"


def answerable(where: Filter) -> Filter:
    """Return what of a filter the index can tell: the filter itself, or one that lets more through.

    Then hits have to be held against the columns or texts too.
    """
    if isinstance(where, And):
        return filters.normal(And(tuple(map(answerable, where.of))))
    return EVERYTHING if any(map(_unindexed, filters.leaves(where))) else where


def _unindexed(leaf: Filter) -> bool:
    if isinstance(leaf, Range):
        return isinstance(leaf.low, str) or isinstance(leaf.high, str)
    return isinstance(leaf, Contains) and not is_whole(leaf.text)


class TantivyCompiler:
    """Makes queries for the schema of one shape."""

    def __init__(self, schema: Schema, shape: Shape) -> None:
        self._schema = schema
        self._shape = shape

    def search(self, plan: LexicalPlan, leaves: Sequence[tuple[ScoredTerm, float]], where: Filter) -> Query:
        """Return what finds and scores: ``leaves`` with the factors that their weights are multiplied by."""
        scoring = [(Occur.Should, self.leaf(leaf, factor)) for leaf, factor in leaves]
        bare = isinstance(where, Everything) and not plan.without
        if plan.plain and bare:
            return Query.boolean_query(scoring)
        if plan.plain:
            clauses = [(Occur.Must, Query.boolean_query(scoring))]
        else:
            clauses = [(Occur.Must, _unscored(self.match(plan.must))), *scoring]
        if not isinstance(where, Everything):
            clauses.append((Occur.Must, _unscored(self.filter(where))))
        clauses.extend((Occur.MustNot, self.match(each)) for each in plan.without)
        return Query.boolean_query(clauses)

    def scoring(self, leaves: Iterable[ScoredTerm]) -> Query:
        """Return the leaves alone, unweighted: what explains a hit."""
        return Query.boolean_query([(Occur.Should, self._term(leaf.term, "freq")) for leaf in leaves])

    def leaf(self, leaf: ScoredTerm, factor: float) -> Query:
        return Query.boost_query(self._term(leaf.term, "freq"), leaf.weight * factor)

    def match(self, match: Match) -> Query:
        """Return what matches, whatever it scores."""
        match match:
            case TermMatch():
                return self._term(match, "basic")
            case PhraseMatch(space, tokens):
                return Query.phrase_query(self._schema, space, list(tokens))
            case PrefixMatch(space, beginning):
                return Query.regex_query(self._schema, space, _escaped(beginning) + ".*")
            case AnyOf(of):
                return _any([self.match(each) for each in of])
            case AllOf(of):
                return _all([self.match(each) for each in of])

    def unscored(self, must: Match, without: Match) -> Query:
        """Return what matches one and not the other, all with one score: the quickest to find."""
        if without == AnyOf(()):
            return _unscored(self.match(must))
        clauses = [(Occur.Must, self.match(must)), (Occur.MustNot, self.match(without))]
        return _unscored(Query.boolean_query(clauses))

    def others(self, must: Match, without: Match) -> Query:
        """Return all that :meth:`unscored` leaves out."""
        if must == AllOf(()):
            return _unscored(self.match(without))
        clauses = [(Occur.Must, Query.all_query()), (Occur.MustNot, self.unscored(must, without))]
        return _unscored(Query.boolean_query(clauses))

    def filter(self, where: Filter) -> Query:
        """Return what a filter means that is :func:`answerable`."""
        match where:
            case Everything():
                return Query.all_query()
            case Not(of):
                return Query.boolean_query(
                    [(Occur.Must, Query.all_query()), (Occur.MustNot, self.filter(of))]
                )
            case And(of):
                return _all([self.filter(each) for each in of])
            case Or(of):
                return _any([self.filter(each) for each in of])
            case Contains(text, names):
                return self.match(needle(text, self._shape.text_names(names)))
            case _:
                return self._condition(where)

    def _condition(self, where: Equal | In | Range | Prefix) -> Query:
        kind = self._shape.field(where.field).kind
        name = field_name(where.field)
        match where:
            case Equal(_, value):
                return Query.term_query(self._schema, name, _indexed(value, kind), "basic")
            case In(_, values):
                return Query.term_set_query(self._schema, name, [_indexed(value, kind) for value in values])
            case Prefix(_, text):
                return Query.regex_query(self._schema, name, _escaped(text) + "(?s:.)*")
            case Range():
                return self._range(where, name, kind)

    def _range(self, where: Range, name: str, kind: Kind) -> Query:
        if where.low is None and where.high is None:
            return Query.term_query(self._schema, PRESENT, where.field, "basic")
        return Query.range_query(
            self._schema,
            name,
            FieldType.Float,
            None if where.low is None else float(where.low),
            None if where.high is None else float(where.high),
            where.include_low or where.low is None,
            where.include_high or where.high is None,
        )

    def _term(self, term: TermMatch, option: str) -> Query:
        return Query.term_query(self._schema, term.space, term.token, option)


def _indexed(value: Scalar, kind: Kind) -> str | float:
    if kind is Kind.BOOLEAN:
        return str(value)
    return float(value) if kind.numeric else str(value)


def _unscored(query: Query) -> Query:
    return Query.const_score_query(query, 0.0)


def _any(of: list[Query]) -> Query:
    return Query.boolean_query([(Occur.Should, each) for each in of]) if of else Query.empty_query()


def _all(of: list[Query]) -> Query:
    return Query.boolean_query([(Occur.Must, each) for each in of]) if of else Query.all_query()


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: "\\" + found.group(), text)
