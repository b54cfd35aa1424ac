package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/linediff"
	"github.com/agentarbor/arbor/internal/visible"
)

// The kinds of differences.
const (
	kindRequest  = "request"  // the requests to a model differ
	kindAgent    = "agent"    // another agent is active
	kindRoute    = "route"    // a router chooses another target
	kindTransfer = "transfer" // a transfer has another outcome
	kindCall     = "call"     // a call has another outcome, for example because its tool is no longer offered
	kindEvent    = "event"    // anything else
)

// Difference is the first place where a tree acts differently from the log, or sends another request.
type Difference struct {
	// Kind is request, agent, route, transfer, call or event.
	Kind    string `json:"kind"`
	Turn    int    `json:"turn"` // from 1
	Seq     int64  `json:"seq"`  // the position in the log of the recorded event
	Agent   string `json:"agent"`
	Message string `json:"message"`

	// Before and After are the requests if Kind is "request", and Changes their differences.
	Before  *Request `json:"before,omitempty"`
	After   *Request `json:"after,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	// Was and New are the events of other kinds, nil if there is none.
	Was *event.Event `json:"was,omitempty"`
	New *event.Event `json:"new,omitempty"`

	// Recorded contains the active agents of the turn in the log, and Route those of the replay. Open reports that
	// Route may continue.
	Recorded []string `json:"recordedRoute"`
	Route    []string `json:"route"`
	Open     bool     `json:"routeOpen"`

	at place
}

// Change is the difference of a part of a request: "model", "system", "messages", "tools" or "settings".
type Change struct {
	Part string `json:"part"`
	// Diff has a line with "-" for each line of the recorded request, and a line with "+" for each line of the new one.
	Diff string `json:"diff"`
}

// explain returns the difference of two events. The caller holds mu.
func (p *player) explain(of *divergence) *Difference {
	d := &Difference{Kind: kindEvent, Was: of.was, New: of.now}
	e := of.was
	if e == nil {
		e = of.now
		d.Seq = min(p.until, int64(len(p.log.events)))
	} else {
		d.Seq = e.Seq
	}
	d.Agent = e.Agent
	switch {
	case of.was == nil:
		d.Message = "it continues where the log ends: " + describe(of.now)
		return d
	case of.now == nil:
		d.Message = "the turn ends before this event of the log: " + describe(of.was)
		return d
	}
	d.Message = describe(of.now) + " in place of " + describe(of.was)
	was, now := of.was.Data, of.now.Data
	switch now := now.(type) {
	case *event.Route:
		if was, ok := was.(*event.Route); ok {
			d.Kind, d.Message = kindRoute, fmt.Sprintf("%s routes to %s%s in place of %s%s", now.From, now.To, rule(now), was.To, rule(was))
			p.path = append(p.path, now.To)
		}
	case *event.Transfer:
		if was, ok := was.(*event.Transfer); ok && was.To != now.To {
			d.Kind = kindRoute
			p.path = append(p.path, now.To)
		}
	case *event.HarnessStart:
		if was, ok := was.(*event.HarnessStart); ok {
			d.Kind, d.Message = kindAgent, fmt.Sprintf("%s begins in place of %s", now.AgentID, was.AgentID)
		}
	case *event.Notice:
		if now.Code == "agent_gone" {
			d.Kind, d.Message = kindAgent, now.Message
		}
	case *event.ToolResult:
		d.Kind = kindCall
		if now.Name == agent.TransferTool {
			d.Kind = kindTransfer
		}
		d.Message = fmt.Sprintf("the call of %s gives %s", now.Name, visible.CutMiddle(event.OutputText(now.Output), 300))
		if was, ok := was.(*event.ToolResult); ok {
			d.Message += ", in place of " + visible.CutMiddle(event.OutputText(was.Output), 300)
		}
	case *event.Relay:
		d.Message = fmt.Sprintf("the call of %s has to be approved or answered, in place of %s", now.Tool, describe(of.was))
	}
	if _, ok := was.(*event.Relay); ok && d.Kind == kindEvent {
		d.Kind = kindCall
	}
	return d
}

// rule returns the rule by which a router chose.
func rule(d *event.Route) string {
	if d.RuleIndex == nil {
		return " (no rule)"
	}
	return fmt.Sprintf(" (rule %d)", *d.RuleIndex)
}

// describe describes an event.
func describe(e *event.Event) string {
	return fmt.Sprintf("%s of %s %s", e.Type(), e.Agent, visible.CutMiddle(string(event.EncodeJSON(e.Data)), 200))
}

// compare sets the differences of the requests.
func (d *Difference) compare() {
	if d.Before == nil || d.After == nil {
		return
	}
	part := func(name string, before, after []string) {
		if !slices.Equal(before, after) {
			diff, _ := linediff.Of(before, after)
			d.Changes = append(d.Changes, Change{name, around(diff)})
		}
	}
	part("model", []string{d.Before.Model}, []string{d.After.Model})
	part("system", d.Before.system(), d.After.system())
	part("messages", d.Before.said(), d.After.said())
	part("tools", d.Before.tools(), d.After.tools())
	part("settings", strings.Split(indented(d.Before.Settings), "\n"), strings.Split(indented(d.After.Settings), "\n"))
}

func (r *Request) system() []string {
	if len(r.Messages) == 0 || r.Messages[0].Role != "system" {
		return nil
	}
	text, _ := r.Messages[0].Content.(string)
	return strings.Split(text, "\n")
}

func (r *Request) said() (lines []string) {
	for i, m := range r.Messages {
		if i > 0 || m.Role != "system" {
			lines = append(lines, string(event.EncodeJSON(m)))
		}
	}
	return lines
}

func (r *Request) tools() (lines []string) {
	for _, t := range r.Tools {
		lines = append(lines, t.Function.Name+":")
		for line := range strings.SplitSeq(t.Function.Description, "\n") {
			lines = append(lines, "  "+line)
		}
		lines = append(lines, "  "+string(event.CompactJSON(t.Function.Parameters)))
	}
	return lines
}

const (
	longLine = 160 // the number of bytes of a line up to which it is shown completely; of characters, of a changed line
	beside   = 60  // the number of equal characters on either side of a change
)

// around shortens the long lines of a diff to the text around their differences.
func around(diff string) string {
	lines := strings.Split(diff, "\n")
	for i := 0; i < len(lines); i++ {
		if i+1 < len(lines) && strings.HasPrefix(lines[i], "- ") && strings.HasPrefix(lines[i+1], "+ ") {
			a, b := []rune(lines[i][2:]), []rune(lines[i+1][2:])
			head, tail := 0, 0
			for head < min(len(a), len(b)) && a[head] == b[head] {
				head++
			}
			for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
				tail++
			}
			lines[i], lines[i+1] = "- "+within(a, head, tail), "+ "+within(b, head, tail)
			i++
			continue
		}
		lines[i] = visible.CutMiddle(lines[i], longLine)
	}
	return strings.Join(lines, "\n")
}

// within shortens the equal beginning and end of a long line.
func within(line []rune, head, tail int) string {
	if len(line) <= longLine {
		return string(line)
	}
	from, to := max(0, head-beside), min(len(line), len(line)-tail+beside)
	text := visible.CutMiddle(string(line[from:to]), 4*longLine)
	if from > 0 {
		text = "…" + text
	}
	if to < len(line) {
		text += "…"
	}
	return text
}

func compact(path []string) []string { return slices.Compact(slices.Clone(path)) }

// extra returns the difference for a request that the log does not have.
func (p *player) extra(c agent.ModelCallInfo) *Difference {
	name := c.Invocation.Agent().Name()
	return &Difference{Kind: kindRequest, Seq: min(p.until, int64(len(p.log.events))), Agent: name, Message: name + " asks a model once more than then"}
}
