package agentgraph

import (
	"math"
	"time"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// maxTimeout is the longest duration that a file can set for a timeout or a backoff.
const maxTimeout = 24 * time.Hour

// duration matches the format of time.ParseDuration without a sign.
var duration = lazyregexp.New(`^(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)

// history returns the key that selects how much of the conversation a node's agents see.
func (r *reader) history(node *Node) yamldoc.Key {
	return yamldoc.Custom("history", `"full", "text_only", "own" or "last_turns:N" with N from 1`, "", func(k *yamldoc.Key, n yamldoc.Node) {
		text, _ := n.Text()
		policy, err := view.Parse(text)
		if node.History = &policy; err != nil {
			r.wrongType(CodeYAML, k, n)
		}
	})
}

func (r *reader) loop(d *draft, l *Loop) []yamldoc.Key {
	return []yamldoc.Key{
		r.compiles(d, "until", condition, &l.Until).WithSchema("Whether to stop after a call, such as output.score > 0.9.", anExpression),
		r.whole("max", CodeYAML, 1, maxCalls, &l.Max).WithSchema("The largest number of calls.", `{"type": "integer", "minimum": 1, "maximum": 1000}`),
		yamldoc.OneOf("atMax", "", func(v string) { l.Fail = v == "fail" }, "continue", "fail").
			WithSchema("Whether the agent fails if until does not hold after the last call.", `{"enum": ["continue", "fail"], "default": "continue"}`),
	}
}

func (r *reader) retry(p *RetryPolicy) []yamldoc.Key {
	return []yamldoc.Key{
		r.whole("max", CodeBadMaxRetries, 0, math.MaxInt32, &p.Max).WithSchema("How often the agent is called again.", `{"type": "integer", "minimum": 0, "maximum": 2147483647}`),
		r.duration("backoff", &p.Backoff).WithSchema("The pause before the first of these calls, such as 1s; it doubles with each one.", aTime),
	}
}

// approval returns the node's approval, which several keys fill in. It creates the approval if there is none.
func (n *Node) approval() *Approval {
	if n.Human == nil {
		n.Human = &Approval{}
	}
	return n.Human
}

func (r *reader) when(node *Node, k *yamldoc.Key, n yamldoc.Node) {
	node.approval()
	if word, ok := r.String(k, n); ok && word != "human" {
		r.Add(n, "when takes only the word human, not %q: write conditions on edges", visible.Cut(word, 60))
	}
}

func (r *reader) by(node *Node, k *yamldoc.Key, n yamldoc.Node) {
	words, before := []string(nil), r.Problems
	r.as = CodeYAML
	defer func() { r.as = "" }()
	if n.Kind() != yamldoc.List || n.Len() > 0 {
		r.Words(k, n, func(word string, _ yamldoc.Node) { words = append(words, word) })
	}
	var err error
	if node.approval().By, err = tools.ReadBy(words...); err != nil && r.Problems == before {
		r.Add(n, "by: %v", err)
	}
}

// duration returns a key whose value is a duration.
func (r *reader) duration(name string, to *time.Duration) yamldoc.Key {
	return yamldoc.Custom(name, "a time with a unit", `"30s", "1m30s" or "500ms"`, func(k *yamldoc.Key, n yamldoc.Node) {
		text, _ := n.Text()
		t, err := time.ParseDuration(text)
		switch {
		case !duration.MatchString(text):
			r.wrongType(CodeYAML, k, n)
		case err != nil || t <= 0 || t > maxTimeout:
			r.Add(n, "%s is a time above 0 and up to 24h, which %s is not", name, visible.Cut(text, 60))
		default:
			*to = t
		}
	})
}
