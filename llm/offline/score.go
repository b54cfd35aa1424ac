package offline

import (
	"cmp"
	"slices"

	"github.com/agentarbor/arbor/internal/bm25"
	"github.com/agentarbor/arbor/llm"
)

// option is something to choose by its words: an agent, a tool, a value.
type option struct {
	name  string
	spec  llm.ToolSpec
	agent bool // to hand over to
	value any
	doc   []bm25.Word
	score float64
}

// rank scores the options against a query and sorts them, equal ones as declared.
func rank(query []bm25.Word, options []option) []option {
	docs := make([][]bm25.Word, len(options))
	for i, o := range options {
		docs[i] = o.doc
	}
	for i, s := range bm25.Scores(query, docs) {
		options[i].score += s
	}
	slices.SortStableFunc(options, func(a, b option) int { return cmp.Compare(b.score, a.score) })
	return options
}
