package llmagent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// maxRepeats is how many answers of one run may contain the same invalid call; the model
// is not asked again after the last of them.
const maxRepeats = 3

// schemaLimit limits, in bytes, the schema that a model reads of a tool that it
// calls in the same wrong way again.
const schemaLimit = 2000

// checkRepeats returns the error that ends the run of a model that made the same invalid
// call too often. It depends only on the log, so that every process that continues
// the run decides the same. A tool that fails for reasons of its own may be called
// again.
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

// correct returns the result of an invalid call: what is wrong with it, and more if the model
// got that result before.
func (r *toolRound) correct(c view.Call, wrong string) string {
	if !repeated(r.run, c, wrong) {
		return wrong
	}
	text := wrong + ". You have made this very call before, with this very error: do not make it again"
	if t := r.byName[c.Name]; t != nil {
		schema := string(t.Info().Parameters)
		if len(schema) > schemaLimit {
			schema = strings.ToValidUTF8(schema[:schemaLimit], "") + "…"
		}
		return text + ". Arguments that fit this JSON schema are valid: " + schema
	}
	return text + "; call one of the tools that are there, or answer in words."
}

// repeated reports whether an earlier answer of the run had the call, with this error.
func repeated(run view.Run, c view.Call, wrong string) bool {
	return slices.ContainsFunc(run.Failures, func(f view.Failure) bool { return f.Of(c.Name, c.Input, wrong) })
}

// invalid returns what is wrong with a call that can never run, "" if nothing
// is. It is the model's result for the first such call.
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
	offered := x.offered(x.inv.Node(), x.run).tools
	if len(offered) == 0 {
		return fmt.Sprintf("there is no tool %q: you have no tools", name)
	}
	names := make([]string, len(offered))
	for i, t := range offered {
		names[i] = t.Name
	}
	return fmt.Sprintf("there is no tool %q. The tools: %s", name, strings.Join(names, ", "))
}
