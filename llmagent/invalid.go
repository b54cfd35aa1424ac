package llmagent

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// maxRepeats is how many answers of one run may hold the same invalid call; the model
// is not asked again after the last of them.
const maxRepeats = 3

// schemaLimit bounds, in bytes, the schema that a model reads of a tool that it
// calls in the same wrong way again.
const schemaLimit = 2000

// invalid says what is wrong with a call that can never be executed, "" if nothing
// is. It is the model's result for the first such call.
func (a *Agent) invalid(inv *agent.Invocation, run view.Run, name string, input json.RawMessage) string {
	if t := a.byName[name]; t != nil {
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
	offered := a.offered(inv.Node(), run).tools
	if len(offered) == 0 {
		return fmt.Sprintf("there is no tool %q: you have no tools", name)
	}
	names := make([]string, len(offered))
	for i, t := range offered {
		names[i] = t.Name
	}
	return fmt.Sprintf("there is no tool %q. The tools: %s", name, strings.Join(names, ", "))
}

// correct is the model's result for an invalid call: what is wrong with it, and more if
// it got that result before.
func (a *Agent) correct(c view.Call, wrong string, run view.Run) string {
	if repeated(run, c.Name, c.Input, wrong) == 0 {
		return wrong
	}
	text := wrong + ". You have made this very call before, with this very error: do not make it again"
	if t := a.byName[c.Name]; t != nil {
		schema := string(t.Info().Parameters)
		if len(schema) > schemaLimit {
			schema = strings.ToValidUTF8(schema[:schemaLimit], "") + "…"
		}
		return text + ". Arguments that fit this JSON schema are valid: " + schema
	}
	return text + "; call one of the tools that are there, or answer in words."
}

// repeated returns how many answers of the run have had the call, with this error.
func repeated(run view.Run, name string, input json.RawMessage, wrong string) int {
	for i := range run.Failures {
		if f := &run.Failures[i]; f.Of(name, input, wrong) {
			return f.Answers
		}
	}
	return 0
}

// checkRepeats returns the error that ends the run of a model that made the same invalid
// call too often. It looks only at the log, so that every process that continues
// the run decides the same. A tool that fails for reasons of its own may be called
// again.
func (a *Agent) checkRepeats(inv *agent.Invocation, run view.Run) error {
	for i := range run.Failures {
		f := &run.Failures[i]
		if f.Answers < maxRepeats {
			continue
		}
		if wrong := a.invalid(inv, run, f.Name, json.RawMessage(f.Input)); wrong != "" && f.Of(f.Name, json.RawMessage(f.Input), wrong) {
			return fmt.Errorf("%w: %s, %d times in one run, the last error: %s", agent.ErrRepeatedCall, f.Name, f.Answers, clean(wrong))
		}
	}
	return nil
}
