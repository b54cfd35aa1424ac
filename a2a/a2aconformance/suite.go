package a2aconformance

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Run tests a server, in each of its bindings.
func Run(t *testing.T, target Target) {
	require.NotEmpty(t, target.Bindings, "the target has no bindings")
	require.NotNil(t, target.Release, "the target has no Release")
	require.NotNil(t, target.Hold, "the target has no Hold")
	for _, b := range target.Bindings {
		t.Run(b.Name, func(t *testing.T) {
			for _, c := range cases() {
				if c.needs != nil && !c.needs(target, b) {
					continue // the target does not have it, and says so
				}
				t.Run(c.name, func(t *testing.T) {
					target.Hold()
					s := &suite{T: t, Target: target, b: b}
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					defer target.Release()
					s.ctx = ctx
					c.run(s)
				})
			}
		})
	}
}

// testCase is one rule of the specification, or a few that belong together.
type testCase struct {
	name  string
	needs func(Target, Binding) bool
	run   func(*suite)
}

// cases are all there are.
func cases() []testCase {
	return slices.Concat(sending(), turns(), reading(), listing(), canceling(), streaming(), pushing(), access(), rejecting())
}

// suite is a test case at work.
type suite struct {
	*testing.T
	Target
	b   Binding
	ctx context.Context
}

// object is a JSON object.
type object = map[string]any

// message makes the params of a message with text.
func message(text string, more ...object) object {
	m := object{"messageId": "m-" + rand.Text(), "role": "ROLE_USER", "parts": []any{object{"text": text}}}
	for _, fields := range more {
		maps.Copy(m, fields)
	}
	return object{"message": m}
}

func with(params object, name string, value any) object {
	params = maps.Clone(params)
	params[name] = value
	return params
}

// try makes a call.
func (s *suite) try(operation string, params object) (object, error) {
	return s.tryAs("", operation, params)
}

func (s *suite) tryAs(caller, operation string, params object) (object, error) {
	s.Helper()
	return s.do(Request{Operation: operation, Params: params, Caller: caller})
}

func (s *suite) do(r Request) (object, error) {
	s.Helper()
	if r.Caller == "" {
		r.Caller = s.caller()
	}
	data, err := s.b.Call(s.ctx, r)
	if err != nil {
		return nil, err
	}
	return s.decode(data), nil
}

// caller is who calls unless a case says otherwise; "" where the server lets everybody in.
func (s *suite) caller() string {
	if len(s.Callers) == 0 {
		return ""
	}
	return s.Callers[0]
}

func (s *suite) decode(data json.RawMessage) object {
	s.Helper()
	var o object
	if len(data) > 0 && string(data) != "null" {
		require.NoError(s, json.Unmarshal(data, &o), "%s", data)
	}
	s.checkNames(o)
	return o
}

// call makes a call that must succeed.
func (s *suite) call(operation string, params object) object {
	s.Helper()
	o, err := s.try(operation, params)
	require.NoError(s, err, operation)
	return o
}

// refused requires that a call is refused, with the code of the reason, and the reason
// itself if it is one of A2A's.
func (s *suite) refused(reason, operation string, params object) {
	s.Helper()
	_, err := s.try(operation, params)
	s.requireError(reason, err)
	if operation == "SendMessage" {
		s.streamRefused(reason, "SendStreamingMessage", params)
	}
}

func (s *suite) requireError(reason string, err error) {
	s.Helper()
	var e *Error
	require.True(s, errors.As(err, &e), "want %s, got %v", reason, err)
	require.Equal(s, s.b.Code(reason), e.Code, "want %s, got %v", reason, e)
	require.NotEmpty(s, e.Message, "an error has a message")
	require.False(s, e.InStream, "an error before the first event is no event of a stream: %v", e)
	if strings.ToUpper(reason) == reason { // one of A2A's own: sections 9.5, 10.6 and 11.6
		require.Equal(s, reason, e.Reason)
		require.Equal(s, "a2a-protocol.org", e.Domain)
	}
}

func (s *suite) streamRefused(reason, operation string, params object) {
	s.Helper()
	seen := false
	for _, err := range s.open(operation, params) {
		s.requireError(reason, err)
		seen = true
	}
	require.True(s, seen, "the stream ended without an error")
}

// open opens a stream.
func (s *suite) open(operation string, params object) iter.Seq2[object, error] {
	return func(yield func(object, error) bool) {
		for data, err := range s.b.Stream(s.ctx, Request{Operation: operation, Params: params, Caller: s.caller()}) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(s.decode(data), nil) {
				return
			}
		}
	}
}

// stream reads a stream to its end.
func (s *suite) stream(operation string, params object) (events []object) {
	s.Helper()
	for e, err := range s.open(operation, params) {
		require.NoError(s, err)
		events = append(events, e)
	}
	return events
}

// send sends a message and returns the task.
func (s *suite) send(text string, more ...object) object {
	s.Helper()
	return s.task(s.call("SendMessage", message(text, more...)))
}

// begin sends a message and returns the task as it begins.
func (s *suite) begin(text string, more ...object) object {
	s.Helper()
	return s.task(s.call("SendMessage", with(message(text, more...), "configuration", object{"returnImmediately": true})))
}

func (s *suite) task(answer object) object {
	s.Helper()
	task, ok := answer["task"].(object)
	require.True(s, ok, "no task: %v", answer)
	s.checkTask(task)
	return task
}

func (s *suite) get(id string) object {
	s.Helper()
	task := s.call("GetTask", object{"id": id})
	s.checkTask(task)
	return task
}

func text(o any, path ...string) string {
	for _, name := range path {
		m, _ := o.(object)
		o = m[name]
	}
	v, _ := o.(string)
	return v
}

func id(task object) string        { return text(task, "id") }
func contextID(task object) string { return text(task, "contextId") }
func state(task object) string {
	return strings.TrimPrefix(text(task, "status", "state"), "TASK_STATE_")
}

func list(o object, name string) []any {
	v, _ := o[name].([]any)
	return v
}

func over(state string) bool {
	switch state {
	case "COMPLETED", "FAILED", "CANCELED", "REJECTED":
		return true
	}
	return false
}

// words returns the text of an artifact or a message.
func words(o any) string {
	m, _ := o.(object)
	all := ""
	for _, p := range list(m, "parts") {
		all += text(p, "text")
	}
	return all
}

// await waits until a task is in a state.
func (s *suite) await(id, want string) object {
	s.Helper()
	for {
		task := s.get(id)
		if state(task) == want {
			return task
		}
		select {
		case <-s.ctx.Done():
			require.Fail(s, "the task does not get there", "want %s, is %s", want, state(task))
		case <-time.After(2 * time.Millisecond): // the server is another process
		}
	}
}

// checkTask holds a task against its message (section 4.1).
func (s *suite) checkTask(task object) {
	s.Helper()
	require.NotEmpty(s, id(task))
	require.NotEmpty(s, contextID(task), "section 3.4.1: a context that the server made must be told")
	require.Contains(s, []string{"SUBMITTED", "WORKING", "INPUT_REQUIRED", "AUTH_REQUIRED", "COMPLETED", "FAILED", "CANCELED", "REJECTED"}, state(task))
	s.checkTime(text(task, "status", "timestamp"))
	seen := make(map[string]bool)
	for _, a := range list(task, "artifacts") {
		name := text(a, "artifactId")
		require.NotEmpty(s, name)
		require.False(s, seen[name], "two artifacts are %q", name)
		seen[name] = true
		require.NotEmpty(s, list(a.(object), "parts"), "an artifact has at least one part")
	}
	for _, m := range list(task, "history") {
		s.checkMessage(task, m.(object))
	}
	if m, ok := task["status"].(object)["message"].(object); ok {
		s.checkMessage(task, m)
		require.Equal(s, "ROLE_AGENT", text(m, "role"))
	}
}

func (s *suite) checkMessage(task, m object) {
	s.Helper()
	require.NotEmpty(s, text(m, "messageId"))
	require.Contains(s, []string{"ROLE_USER", "ROLE_AGENT"}, text(m, "role"))
	require.NotEmpty(s, list(m, "parts"))
	for _, name := range []string{"taskId", "contextId"} {
		if v := text(m, name); v != "" {
			require.Equal(s, text(task, map[string]string{"taskId": "id", "contextId": "contextId"}[name]), v)
		}
	}
}

// checkTime holds a timestamp against section 5.6.1.
func (s *suite) checkTime(at string) {
	s.Helper()
	if at == "" {
		return
	}
	_, err := time.Parse(time.RFC3339Nano, at)
	require.NoError(s, err)
	require.True(s, strings.HasSuffix(at, "Z"), "times are UTC: %s", at)
}

// checkNames holds the names of fields against section 5.5. What users put into metadata
// and data has the names that they gave.
func (s *suite) checkNames(v any) {
	s.Helper()
	switch v := v.(type) {
	case object:
		for name, value := range v {
			require.NotContains(s, name, "_", "names are in camelCase")
			require.NotNil(s, value, "%s is null", name)
			if name != "metadata" && name != "data" && name != "params" && name != "schemes" && name != "securitySchemes" && name != "security" && name != "securityRequirements" {
				s.checkNames(value)
			}
		}
	case []any:
		for _, value := range v {
			s.checkNames(value)
		}
	}
}
