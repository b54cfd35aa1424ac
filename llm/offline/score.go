package offline

import (
	"cmp"
	"slices"

	"github.com/agentarbor/arbor/internal/bm25"
	"github.com/agentarbor/arbor/llm"
)

// option is a choice with its words: an agent, a tool or a value.
type option struct {
	name  string
	spec  llm.ToolSpec
	agent bool // a transfer to the agent
	value any
	doc   []bm25.Word
	score float64
}

// rank scores the options for a query and sorts them by score. Equal ones keep their order.
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
