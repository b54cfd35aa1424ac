package render

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
)

// Usage returns a sink that adds up what the models of each agent have used, and at the end
// writes a table of it, or one JSON object a line. Costs are shown if there are prices.
func Usage(w io.Writer, asJSON bool, prices llm.Prices) Sink {
	return &ledger{w: w, json: asJSON, prices: prices}
}

type ledger struct {
	w      io.Writer
	json   bool
	prices llm.Prices   // nil: no costs are shown
	rows   []*ledgerRow // in the order in which agents first answered
}

// ledgerRow counts an agent's answers and tokens. Cached tokens are input tokens
// that came from a provider's cache. Cost is that of the answers whose model has
// a price; Unpriced names the models that have none.
type ledgerRow struct {
	Agent        string   `json:"agent"`
	Answers      int      `json:"answers"`
	Discarded    int      `json:"discarded"`
	InputTokens  int      `json:"inputTokens"`
	CachedTokens int      `json:"cachedTokens"`
	OutputTokens int      `json:"outputTokens"`
	Cost         *float64 `json:"cost,omitempty"`
	Unpriced     []string `json:"unpriced,omitempty"`
}

func (l *ledger) Event(e *event.Event) {
	switch d := e.Data.(type) {
	case *event.Usage:
		r := l.row(e.Agent)
		r.Answers++
		l.spend(r, d)
	case *event.Discard:
		r := l.row(e.Agent)
		r.Discarded++
		if d.Usage != nil {
			l.spend(r, d.Usage)
		}
	}
}

func (l *ledger) spend(r *ledgerRow, u *event.Usage) {
	counted := u.Counted()
	r.add(counted)
	if l.prices == nil {
		return
	}
	if r.Cost == nil {
		r.Cost = new(float64)
	}
	cost, known := l.prices.Cost(u.Model, counted)
	*r.Cost += cost
	if !known && !slices.Contains(r.Unpriced, u.Model) {
		r.Unpriced = append(r.Unpriced, u.Model)
	}
}

func (r *ledgerRow) used() llm.Usage {
	return llm.Usage{InputTokens: r.InputTokens, OutputTokens: r.OutputTokens, CachedTokens: r.CachedTokens}
}

func (r *ledgerRow) add(u llm.Usage) {
	sum := r.used().Add(u)
	r.InputTokens, r.OutputTokens, r.CachedTokens = sum.InputTokens, sum.OutputTokens, sum.CachedTokens
}

func (l *ledger) row(name string) *ledgerRow {
	i := slices.IndexFunc(l.rows, func(r *ledgerRow) bool { return r.Agent == name })
	if i < 0 {
		i = len(l.rows)
		l.rows = append(l.rows, &ledgerRow{Agent: name})
	}
	return l.rows[i]
}

func (l *ledger) Finish() {
	if l.json {
		for _, r := range l.rows {
			JSON(l.w, r)
		}
		return
	}
	table := tabwriter.NewWriter(l.w, 0, 0, 2, ' ', 0)
	head := "AGENT\tANSWERS\tDISCARDED\tINPUT\tCACHED\tOUTPUT"
	if l.prices != nil {
		head += "\tCOST"
	}
	fmt.Fprintln(table, head)
	sum := &ledgerRow{Agent: "total", Cost: new(float64)}
	for _, r := range l.rows {
		l.print(table, r)
		sum.Answers += r.Answers
		sum.Discarded += r.Discarded
		sum.add(r.used())
		if r.Cost != nil {
			*sum.Cost += *r.Cost
		}
		for _, model := range r.Unpriced {
			if !slices.Contains(sum.Unpriced, model) {
				sum.Unpriced = append(sum.Unpriced, model)
			}
		}
	}
	l.print(table, sum)
	_ = table.Flush() // errors of the writer are the writer's to keep
}

func (l *ledger) print(w io.Writer, r *ledgerRow) {
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d", visible.Line(r.Agent), r.Answers, r.Discarded, r.InputTokens, r.CachedTokens, r.OutputTokens)
	switch {
	case l.prices == nil:
	case len(r.Unpriced) > 0:
		fmt.Fprintf(w, "\tunknown: no price for %s", visible.Line(strings.Join(r.Unpriced, ", ")))
	case r.Cost != nil:
		fmt.Fprintf(w, "\t%.6g", *r.Cost)
	default:
		fmt.Fprint(w, "\t0")
	}
	fmt.Fprintln(w)
}
