package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/schema"
)

// Result is the outcome of one call.
type Result struct {
	Output  json.RawMessage
	IsError bool
	// State are the changes of the session's state that the call has made, or nil.
	State map[string]any
	// Files are the files that the call has saved, in order.
	Files []*event.File

	waits error // an agent.ErrWaits
}

// grace is the time in which a tool must return after its context has ended. After that, Execute returns without the
// tool's result, and the tool keeps running.
const grace = 2 * time.Second

// Execute runs one call: it checks the input, recovers panics, and limits the time and the output. A failure is a
// Result that the model can read. Execute returns an error only if the call has no known outcome: the context's error
// if ctx ended before the tool did, or the tool's error if that is agent.ErrWaits.
func Execute(ctx context.Context, t Tool, info CallInfo, input json.RawMessage) (Result, error) {
	ti := t.Info()
	if err := Check(t, input); err != nil {
		return failed(err.Error()), nil
	}
	if res, instead, err := standIn(ctx, t, info, input); instead || err != nil {
		return res, err
	}
	timeout := ti.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	callCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	if timeout > 0 {
		callCtx, cancel = context.WithTimeout(callCtx, timeout)
		defer cancel()
	}

	c := newContext(callCtx, info)
	defer c.end()
	done := make(chan Result, 1)
	go func() {
		res := broken(ti) // if the tool ends its goroutine by runtime.Goexit
		defer func() { done <- res }()
		res = guarded(c, t, ti, input)
	}()
	var res Result
	select {
	case res = <-done:
	case <-callCtx.Done():
		select {
		case res = <-done:
		case <-time.After(grace):
			c.Logger().Warn("a tool ignores the end of its context and is left running", "tool", ti.Name, "call", info.CallID)
			res = failed("the tool did not stop in time; its outcome is unknown")
		}
	}
	if err := ctx.Err(); err != nil && res.IsError {
		return Result{}, err
	}
	if res.waits != nil {
		return Result{}, res.waits
	}
	if res.IsError && errors.Is(callCtx.Err(), context.DeadlineExceeded) {
		res.Output = event.EncodeJSON(fmt.Sprintf("the tool %s timed out after %s; its outcome is unknown", ti.Name, timeout))
	}
	res.State, res.Files = c.stateDelta(), c.saved()
	return res, nil
}

// Check returns the error about an input that Execute would return to the model, or nil if the tool accepts the input.
// It checks the schema of a tool that [Func] or [New] made, and of one that wraps such a tool and implements
// Unwrap() Tool. Any other tool checks its inputs itself; Check then returns an error only if the input is not JSON, or
// if an object in it contains a key twice.
func Check(t Tool, input json.RawMessage) error {
	for t != nil {
		if v, ok := t.(interface {
			validate(json.RawMessage) error
		}); ok {
			return v.validate(input)
		}
		w, ok := t.(interface{ Unwrap() Tool })
		if !ok {
			break
		}
		t = w.Unwrap()
	}
	if _, err := schema.Decode(input); err != nil {
		return fmt.Errorf("the arguments are %w", err)
	}
	return nil
}

func guarded(c Context, t Tool, info Info, input json.RawMessage) (res Result) {
	defer func() {
		if r := recover(); r != nil {
			c.Logger().Error("a tool panicked", "tool", info.Name, "call", c.CallID(), "panic", r, "stack", string(debug.Stack()))
			res = broken(info)
		}
	}()
	out, err := t.Call(c, input)
	if err != nil {
		res = failed(capText(valid(err.Error()), info.MaxOutput))
		if errors.Is(err, agent.ErrWaits) {
			res.waits = err
		}
		return res
	}
	return Result{Output: encode(out, info.MaxOutput)}
}

func failed(message string) Result {
	return Result{Output: event.EncodeJSON(valid(message)), IsError: true}
}

func broken(info Info) Result {
	return failed(fmt.Sprintf("the tool %s failed with an internal error", info.Name))
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func encode(out any, limit int) json.RawMessage {
	switch v := out.(type) {
	case string:
		return event.EncodeJSON(capText(valid(v), limit))
	case json.RawMessage:
		if !event.TooDeep(v) && !json.Valid(v) { // what is too deep becomes text where it is stored
			return event.EncodeJSON(capText(valid(string(v)), limit))
		}
		return capJSON(bytes.ToValidUTF8(v, []byte("\uFFFD")), limit)
	}
	return capJSON(event.EncodeJSON(out), limit)
}

// capJSON turns a value that is too long into a string of its beginning.
func capJSON(v json.RawMessage, limit int) json.RawMessage {
	if limit == 0 {
		limit = DefaultMaxOutput
	}
	if len(v) <= limit {
		return v
	}
	return event.EncodeJSON(capText(string(v), limit))
}

func capText(s string, limit int) string {
	if limit == 0 {
		limit = DefaultMaxOutput
	}
	if len(s) <= limit {
		return s
	}
	n := limit
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return fmt.Sprintf("%s\n[cut here: %d of %d bytes shown]", s[:n], n, len(s))
}
