package render

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Usage returns a sink that sums the usage of each agent's models, and at the end writes a table, or one JSON object
// per line. It includes costs if prices is not nil.
func Usage(w io.Writer, asJSON bool, prices llm.Prices) Sink {
	return &ledger{w: w, json: asJSON, prices: prices, total: ledgerRow{Agent: "total"}}
}

// Cost is like [Usage], but with separate rows for each turn, and with the tokens that were not cached because of
// transfers.
func Cost(w io.Writer, asJSON bool, prices llm.Prices) Sink {
	return &ledger{w: w, json: asJSON, prices: prices, turns: true, total: ledgerRow{Agent: "total"}}
}

type ledger struct {
	w      io.Writer
	json   bool
	prices llm.Prices   // nil shows no costs
	rows   []*ledgerRow // in the order in which the agents first answered
	total  ledgerRow
	turns  bool // each turn has its own rows

	turn     int
	arrivals session.Arrivals
}

// ledgerRow counts an agent's answers and tokens. CachedTokens are input tokens from a provider's cache. Cost is the
// cost of the answers whose model has a price; Unpriced names the other models. Uncached counts the uncached input
// tokens of the first answers after transfers.
type ledgerRow struct {
	Turn         int      `json:"turn,omitempty"`
	Agent        string   `json:"agent"`
	Answers      int      `json:"answers"`
	Discarded    int      `json:"discarded"`
	InputTokens  int      `json:"inputTokens"`
	CachedTokens int      `json:"cachedTokens"`
	OutputTokens int      `json:"outputTokens"`
	Uncached     int      `json:"readAnew,omitempty"`
	Cost         *float64 `json:"cost,omitempty"`
	UncachedCost *float64 `json:"readAnewCost,omitempty"`
	Unpriced     []string `json:"unpriced,omitempty"`
}

func (l *ledger) Event(e *event.Event) {
	if u, uncached := l.arrivals.Apply(e); u != nil && l.turns {
		for _, r := range l.sums(e.Agent) {
			l.addUncached(r, u.Model, uncached)
		}
	}
	switch d := e.Data.(type) {
	case *event.User:
		if l.turns && e.Scope == "" {
			l.turn++
		}
	case *event.Usage:
		for _, r := range l.sums(e.Agent) {
			r.Answers++
			l.spend(r, d)
		}
	case *event.Discard:
		for _, r := range l.sums(e.Agent) {
			r.Discarded++
			if d.Usage != nil {
				l.spend(r, d.Usage)
			}
		}
	}
}

func (l *ledger) addUncached(r *ledgerRow, model string, tokens int) {
	r.Uncached += tokens
	if cost, known := l.prices.Cost(model, llm.Usage{InputTokens: tokens}); known {
		r.UncachedCost = plus(r.UncachedCost, cost)
	}
}

func plus(sum *float64, more float64) *float64 {
	if sum != nil {
		more += *sum
	}
	return &more
}

func (l *ledger) spend(r *ledgerRow, u *event.Usage) {
	counted := u.Counted()
	sum := llm.Usage{InputTokens: r.InputTokens, OutputTokens: r.OutputTokens, CachedTokens: r.CachedTokens}.Add(counted)
	r.InputTokens, r.OutputTokens, r.CachedTokens = sum.InputTokens, sum.OutputTokens, sum.CachedTokens
	if l.prices == nil {
		return
	}
	cost, known := l.prices.Cost(u.Model, counted)
	r.Cost = plus(r.Cost, cost)
	if !known && !slices.Contains(r.Unpriced, u.Model) {
		r.Unpriced = append(r.Unpriced, u.Model)
	}
}

// sums returns what an agent's usage is added to: its row, and the total.
func (l *ledger) sums(name string) [2]*ledgerRow {
	i := slices.IndexFunc(l.rows, func(r *ledgerRow) bool { return r.Turn == l.turn && r.Agent == name })
	if i < 0 {
		i = len(l.rows)
		l.rows = append(l.rows, &ledgerRow{Turn: l.turn, Agent: name})
	}
	return [2]*ledgerRow{l.rows[i], &l.total}
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
	if l.turns {
		head = "TURN\t" + head + "\tREAD ANEW"
	}
	if l.prices != nil {
		head += "\tCOST"
		if l.turns {
			head += "\tREAD ANEW COST"
		}
	}
	fmt.Fprintln(table, head)
	for _, r := range append(l.rows, &l.total) {
		l.print(table, r)
	}
	_ = table.Flush() // writers keep their errors
}

func (l *ledger) print(w io.Writer, r *ledgerRow) {
	if l.turns {
		turn := ""
		if r.Turn > 0 {
			turn = strconv.Itoa(r.Turn)
		}
		fmt.Fprintf(w, "%s\t", turn)
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d", visible.Line(r.Agent), r.Answers, r.Discarded, r.InputTokens, r.CachedTokens, r.OutputTokens)
	if l.turns {
		fmt.Fprintf(w, "\t%d", r.Uncached)
	}
	switch {
	case l.prices == nil:
	case len(r.Unpriced) > 0:
		fmt.Fprintf(w, "\tunknown: no price for %s", visible.Line(strings.Join(r.Unpriced, ", ")))
	case r.Cost != nil:
		fmt.Fprintf(w, "\t%.6g", *r.Cost)
	default:
		fmt.Fprint(w, "\t0")
	}
	switch {
	case !l.turns || l.prices == nil:
	case r.UncachedCost != nil:
		fmt.Fprintf(w, "\t%.6g", *r.UncachedCost)
	case r.Uncached > 0:
		fmt.Fprint(w, "\tunknown")
	default:
		fmt.Fprint(w, "\t0")
	}
	fmt.Fprintln(w)
}
