package llmagent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// notApproved is the result of a call that differs from the approved call, or that the rules no longer allow.
const notApproved = "not executed: the tool or its arguments are not those that were approved"

// sort separates the calls that can get a result now from the calls that wait for an approval or an answer. An
// approval of a different call does not count.
func (r *toolRound) sort(calls []view.Call) (now, later []view.Call) {
	for _, c := range calls {
		if !r.stays(c) && (c.Asked || (c.Answer == nil || r.stale(c, c.Input) && !r.lost(c)) && r.decide(c) == tools.Ask) {
			later = append(later, c)
		} else {
			now = append(now, c)
		}
	}
	return now, later
}

// questions returns the approval requests for calls, except those that were sent before.
func (r *toolRound) questions(calls []view.Call) (asked []*event.Relay) {
	for _, c := range calls {
		if !c.Asked {
			digest, by := r.digest(r.byName[c.Name].Info(), c.Input)
			asked = append(asked, &event.Relay{Kind: event.RelayPermission, ToolCallID: c.ID, Tool: c.Name, Params: c.Input, By: by.Needs(), Digest: digest})
		}
	}
	return asked
}

// refuses reports whether a call gets its result without running.
func (r *toolRound) refuses(c view.Call) bool {
	return !r.has(c.Name) || r.denied(c) != "" || r.stays(c) || r.lost(c)
}

// refuse returns the result of a call that does not run.
func (r *toolRound) refuse(c view.Call) *event.Event {
	message := "interrupted; outcome unknown; check before you repeat it"
	if r.stays(c) {
		message = "not executed here: " + agent.NotInFork
	}
	if reason := r.denied(c); reason != "" {
		message = reason
	}
	if !r.has(c.Name) {
		message = r.correct(c, r.invalid(c.Name, c.Input))
	}
	return result(c, event.EncodeJSON(message), true)
}

func result(c view.Call, output json.RawMessage, isError bool) *event.Event {
	return &event.Event{ID: c.ID, Data: &event.ToolResult{Name: c.Name, Output: output, IsError: isError}}
}

// lost reports whether another process may have run the call before, and the call must not run twice. If this process
// stored the call, or the decision that allows it, no other process has run it.
func (r *toolRound) lost(c view.Call) bool {
	if r.inv.Attempt() <= 1 || max(c.Seq, c.Answered) > r.inv.ResumedAt() {
		return false
	}
	info := r.byName[c.Name].Info()
	return !info.Idempotent && !info.Resumable
}

// stays reports whether a call belongs to the parent session of a fork and must not run here: it may run there, and
// it needs an approval or must not run twice.
func (r *toolRound) stays(c view.Call) bool {
	if c.Seq > r.inv.Shared() || !r.has(c.Name) {
		return false
	}
	info := r.byName[c.Name].Info()
	return r.decide(c) == tools.Ask || !info.Idempotent && !info.Resumable
}

// denied returns why a call must not run, or "" if it may.
func (k *kit) denied(c view.Call) string {
	switch {
	case k.forbidden[c.Name] != "":
		return "refused: " + k.forbidden[c.Name]
	case k.decide(c) == tools.Deny:
		return "denied: this call is not allowed"
	case c.Answer != nil && !c.Answer.Approved:
		return refusal(c.Answer)
	}
	return ""
}

func refusal(r *event.RelayResolved) string {
	if r.Reason == "" {
		return "denied"
	}
	return "denied: " + r.Reason
}

// stale reports whether a call with this input differs from the approved call, or, if an interceptor has changed the
// input, whether the rules do not allow it.
func (k *kit) stale(c view.Call, input json.RawMessage) bool {
	t := k.byName[c.Name]
	if t == nil {
		return false
	}
	if c.Answer != nil && c.Answer.Approved && k.decide(c) == tools.Ask {
		digest, _ := k.digest(t.Info(), input)
		return digest != c.Answer.Digest
	}
	return !bytes.Equal(input, c.Input) && k.agent.rules.Decide(t.Info(), input) != tools.Allow
}

// decide returns what the rules say about a call.
func (k *kit) decide(c view.Call) tools.Decision {
	if k.forbidden[c.Name] != "" {
		return tools.Deny
	}
	if t := k.byName[c.Name]; t != nil {
		return k.agent.rules.Decide(t.Info(), c.Input)
	}
	return tools.Allow
}

// digest returns the digest of the call that an approval covers, and who may approve it.
func (k *kit) digest(info tools.Info, input json.RawMessage) (digest string, by tools.By) {
	by = k.agent.rules.By(info, input, k.agent.approver)
	return tools.Digest(info, by.Needs(), input), by
}

// maxRepeats is the number of answers of one run that may contain the same invalid call. After the last of them the
// run ends.
const maxRepeats = 3

// schemaLimit is the maximal length in characters of a tool's schema in the result for a model that repeats an invalid
// call.
const schemaLimit = 2000

// checkRepeats returns the error that ends the run of a model that has repeated an invalid call too often. It depends
// only on the log, so that each process that resumes the run decides the same. A tool that failed for its own reasons
// may be called again.
func (x *execution) checkRepeats() error {
	for _, f := range x.run.Failures {
		if f.Answers < maxRepeats {
			continue
		}
		if wrong := x.invalid(f.Name, json.RawMessage(f.Input)); wrong != "" && f.Of(f.Name, json.RawMessage(f.Input), wrong) {
			return fmt.Errorf("%w: %s, %d times in one run, the last error: %s", agent.ErrRepeatedCall, f.Name, f.Answers, clean(wrong))
		}
	}
	return nil
}

// correct returns the result of an invalid call: what is wrong with it, and more if the model got the same result
// before.
func (r *toolRound) correct(c view.Call, wrong string) string {
	if !repeated(r.run, c, wrong) {
		return wrong
	}
	text := wrong + ". You have made this very call before, with this very error: do not make it again"
	if t := r.byName[c.Name]; t != nil {
		return text + ". Arguments that fit this JSON schema are valid: " + visible.Cut(string(t.Info().Parameters), schemaLimit)
	}
	return text + "; call one of the tools that are there, or answer in words."
}

// repeated reports whether an earlier answer of the run had the call, with this error.
func repeated(run view.Run, c view.Call, wrong string) bool {
	return slices.ContainsFunc(run.Failures, func(f view.Failure) bool { return f.Of(c.Name, c.Input, wrong) })
}

// invalid returns why a call can never run, or "" if it can. It is the result for the first such call.
func (x *execution) invalid(name string, input json.RawMessage) string {
	if t := x.byName[name]; t != nil {
		if wrong := tools.Check(t, input); wrong != nil {
			return strings.ToValidUTF8(wrong.Error(), "\uFFFD")
		}
		return ""
	}
	if name == malformedTool {
		var written struct{ Name string }
		if json.Unmarshal(input, &written) == nil && written.Name != "" {
			name = written.Name
		}
	}
	offered := x.templateFor(x.inv.Node(), x.run).tools
	if len(offered) == 0 {
		return fmt.Sprintf("there is no tool %q: you have no tools", name)
	}
	names := make([]string, len(offered))
	for i, t := range offered {
		names[i] = t.Name
	}
	return fmt.Sprintf("there is no tool %q. The tools: %s", name, strings.Join(names, ", "))
}
