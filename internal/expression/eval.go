package expression

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"github.com/agentarbor/arbor/internal/visible"
)

// The limits of one evaluation, in addition to the memory budget of the virtual machine, which counts the items of
// created lists and maps.
const (
	maxTime   = time.Second // for functions over lists, checked after each item
	maxMemory = 16 << 20    // in bytes, for results, for the output of functions over lists, and for join and replace
)

// Env contains the values that an expression sees, in the form of [Decode] and [Copy]. Evaluation only reads them.
// State is for programs that were compiled with [WithState].
type Env struct{ Output, Input, State any }

// EnvOf returns an Env with copies of JSON values, in any form that [Copy] accepts.
func EnvOf(output, input any, state map[string]any) (env Env, err error) {
	for _, v := range []struct {
		to   *any
		from any
		name string
	}{{&env.Output, output, "output"}, {&env.Input, input, "input"}, {&env.State, state, "state"}} {
		if *v.to, err = Copy(v.from); err != nil {
			return Env{}, fmt.Errorf("%s: %w", v.name, err)
		}
	}
	return env, nil
}

// names contains the variables of the virtual machine.
type names struct {
	Output any  `expr:"output"`
	Input  any  `expr:"input"`
	State  any  `expr:"state"`
	Run    *run `expr:"$run"` // for the calls that the patcher adds
}

// EvalError reports why an expression has no value for its input.
type EvalError struct {
	Source  string // of the whole expression
	Message string
}

func (e *EvalError) Error() string {
	return fmt.Sprintf("the expression %s: %s", short(e.Source), e.Message)
}

// Test evaluates a condition. A missing value is false; any other value except true and false is an error. The error is
// an [*EvalError].
func (p *Program) Test(env Env) (bool, error) {
	v, err := p.run(env)
	if err != nil {
		return false, err
	}
	switch v := v.(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	}
	return false, &EvalError{p.source, "a condition must be true or false, and this is " + describe(v)}
}

// Texts evaluates an expression whose value is a string, a list of strings, or nil for none. The error is an
// [*EvalError].
func (p *Program) Texts(env Env) ([]string, error) {
	v, err := p.Value(env)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		out := make([]string, len(v))
		for i, item := range v {
			text, ok := item.(string)
			if !ok {
				return nil, &EvalError{p.source, "a text or a list of texts is needed, and its list holds " + describe(item)}
			}
			out[i] = text
		}
		return out, nil
	}
	return nil, &EvalError{p.source, "a text or a list of texts is needed, and this is " + describe(v)}
}

// Value evaluates the expression. The result is nil, bool, string, int, float64, []any or map[string]any, and shares no
// memory with the input. The error is an [*EvalError].
func (p *Program) Value(env Env) (any, error) {
	v, err := p.run(env)
	if err != nil {
		return nil, err
	}
	c := copier{left: maxMemory, finite: true}
	if v, err = c.copy(v, 0); err != nil {
		return nil, &EvalError{p.source, "its result: " + err.Error()}
	}
	return v, nil
}

func (p *Program) run(env Env) (any, error) {
	if env.State == nil { // all of its keys are missing
		env.State = map[string]any(nil)
	}
	r := &run{until: time.Now().Add(maxTime), left: maxMemory}
	v, err := vm.Run(p.code, &names{env.Output, env.Input, env.State, r})
	if err != nil {
		return nil, &EvalError{p.source, p.explain(err)}
	}
	return v, nil
}

// plain replaces Go's names of types by those of JSON.
var plain = strings.NewReplacer("interface conversion: interface {} is ", "this is ",
	"invalid operation: int(string)", "a text and a list have no keys",
	"map[string]interface {}", "a mapping", "[]interface {}", "a list", "[]uint8", "string", "<nil>", "nil")

// maxMessage is the length in characters of the longest message: that of int quotes the whole text that is no number.
const maxMessage = 200

// explain returns the error and its position in the source.
func (p *Program) explain(err error) string {
	var where *file.Error
	if !errors.As(err, &where) {
		return visible.Cut(plain.Replace(err.Error()), maxMessage)
	}
	return errorAt([]rune(p.source), where.From, "%s", visible.Cut(plain.Replace(where.Message), maxMessage)).Error()
}

// describe describes a value for messages.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "missing"
	case bool:
		return fmt.Sprintf("the value %t", v)
	case string:
		if len(v) > 40 {
			return "a text"
		}
		return fmt.Sprintf("the text %q", v)
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return fmt.Sprintf("the number %v", v)
}

func short(s string) string {
	return visible.Cut(strings.Join(strings.Fields(s), " "), 80)
}
