package cli

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/agentarbor/arbor/agent"
)

// ledger is a sink that adds up what the models of each agent have used.
type ledger struct {
	w    io.Writer
	json bool
	rows []*ledgerRow // in the order in which agents first answered
}

// ledgerRow counts an agent's answers and tokens. Cached tokens are input tokens
// that came from a provider's cache.
type ledgerRow struct {
	Agent        string `json:"agent"`
	Answers      int    `json:"answers"`
	Discarded    int    `json:"discarded"`
	InputTokens  int    `json:"inputTokens"`
	CachedTokens int    `json:"cachedTokens"`
	OutputTokens int    `json:"outputTokens"`
}

func (l *ledger) event(e *agent.Event) {
	switch d := e.Data.(type) {
	case *agent.Usage:
		r := l.row(e.Agent)
		r.Answers++
		r.InputTokens += d.InputTokens
		r.CachedTokens += d.CachedTokens
		r.OutputTokens += d.OutputTokens
	case *agent.Discard:
		l.row(e.Agent).Discarded++
	}
}

func (l *ledger) row(name string) *ledgerRow {
	i := slices.IndexFunc(l.rows, func(r *ledgerRow) bool { return r.Agent == name })
	if i < 0 {
		i = len(l.rows)
		l.rows = append(l.rows, &ledgerRow{Agent: name})
	}
	return l.rows[i]
}

func (l *ledger) finish() {
	if l.json {
		for _, r := range l.rows {
			writeJSON(l.w, r)
		}
		return
	}
	table := tabwriter.NewWriter(l.w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "AGENT\tANSWERS\tDISCARDED\tINPUT\tCACHED\tOUTPUT")
	sum := ledgerRow{Agent: "total"}
	for _, r := range l.rows {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\n", oneLine(r.Agent), r.Answers, r.Discarded, r.InputTokens, r.CachedTokens, r.OutputTokens)
		sum.Answers += r.Answers
		sum.Discarded += r.Discarded
		sum.InputTokens += r.InputTokens
		sum.CachedTokens += r.CachedTokens
		sum.OutputTokens += r.OutputTokens
	}
	fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\n", sum.Agent, sum.Answers, sum.Discarded, sum.InputTokens, sum.CachedTokens, sum.OutputTokens)
	_ = table.Flush() // errors of the writer are the writer's to keep
}
