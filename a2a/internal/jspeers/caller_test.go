package jspeers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// patience bounds how long a test waits for a client's next word. A machine under load takes its time.
const patience = 2 * time.Minute

// client is a process of Node.js with clients in it, which do what the tests say.
type client struct {
	*program

	mu    sync.Mutex
	last  int
	calls map[int]chan reply
	ended error
}

var clients = shared(newClient, "client.mjs", "client03.mjs")

func newClient(script string) *client {
	c := &client{program: launch(script), calls: make(map[int]chan reply)}
	go c.read()
	return c
}

// caller is a client for one test.
type caller struct {
	*client
	t *testing.T
}

// target is the agent that a call goes to.
type target struct {
	Card    string            `json:"card"` // the card's URL
	Binding string            `json:"binding,omitempty"`
	Legacy  bool              `json:"legacy,omitempty"` // speak 0.3
	Headers map[string]string `json:"headers,omitempty"`
}

type reply struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Event  json.RawMessage `json:"event"`
	Done   bool            `json:"done"`
	Error  *callError      `json:"error"`
}

// callError is what the JavaScript SDK made of an error.
type callError struct {
	Name    string `json:"name"` // of the error's class
	Message string `json:"message"`
	Code    string `json:"code"`
}

func (e *callError) Error() string { return fmt.Sprintf("%s (%s): %s", e.Name, e.Code, e.Message) }

// newCaller returns a caller with the clients of client.mjs or client03.mjs.
func newCaller(t *testing.T, script string) *caller {
	t.Helper()
	needNode(t)
	c := &caller{clients[script](), t}
	c.watch(t)
	return c
}

func (c *client) read() {
	for {
		line, err := c.out.ReadBytes('\n')
		var r reply
		if err == nil {
			err = json.Unmarshal(line, &r)
		}
		c.mu.Lock()
		if err != nil {
			c.ended = fmt.Errorf("the client's process ended: %w", err)
			for _, call := range c.calls {
				close(call)
			}
			c.calls = nil
			c.mu.Unlock()
			return
		}
		call := c.calls[r.ID]
		c.mu.Unlock()
		if call != nil {
			call <- r
		}
	}
}

func (c *caller) begin(to target, op string, params any) (int, chan reply) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.NoError(c.t, c.ended)
	c.last++
	call := make(chan reply, 1000)
	c.calls[c.last] = call
	line := must.Get(json.Marshal(map[string]any{"id": c.last, "op": op, "to": to, "params": params}))
	must.Get(c.in.Write(append(line, '\n')))
	return c.last, call
}

var errSilent = errors.New("the client said nothing for a long time")

func next(call chan reply) (reply, error) {
	select {
	case r, ok := <-call:
		switch {
		case !ok:
			return r, errors.New("the client's process ended")
		case r.Error != nil:
			return r, r.Error
		}
		return r, nil
	case <-time.After(patience):
		return reply{}, errSilent
	}
}

// call makes one call and decodes its result into v, unless that is nil. The error is
// a *callError if the client's is.
func (c *caller) call(to target, op string, params, v any) error {
	c.t.Helper()
	_, call := c.begin(to, op, params)
	r, err := next(call)
	if err == nil && v != nil {
		require.NoError(c.t, json.Unmarshal(r.Result, v), "%s", r.Result)
	}
	return err
}

// stream begins a call whose events come one by one.
func (c *caller) stream(to target, op string, params any) *stream {
	c.t.Helper()
	id, call := c.begin(to, op, params)
	return &stream{c, id, call}
}

type stream struct {
	c    *caller
	id   int
	call chan reply
}

// next returns the next event, io.EOF after the last one.
func (s *stream) next() (e update, err error) {
	s.c.t.Helper()
	r, err := next(s.call)
	switch {
	case err != nil:
		return e, err
	case r.Done:
		return e, io.EOF
	}
	require.NoError(s.c.t, json.Unmarshal(r.Event, &e), "%s", r.Event)
	return e, nil
}

// must returns the next event.
func (s *stream) must() update {
	s.c.t.Helper()
	return must.Get(s.next())
}

// rest returns all events to come.
func (s *stream) rest() (events []update) {
	s.c.t.Helper()
	for {
		e, err := s.next()
		if errors.Is(err, io.EOF) {
			return events
		}
		require.NoError(s.c.t, err)
		events = append(events, e)
	}
}

// What the clients return, in the JSON of either version. States are those of 0.3,
// such as input-required.
type (
	state string

	update struct {
		Task     *task           `json:"task"`
		Message  *message        `json:"message"`
		Status   *statusUpdate   `json:"statusUpdate"`
		Artifact *artifactUpdate `json:"artifactUpdate"`
	}

	task struct {
		ID        string         `json:"id"`
		ContextID string         `json:"contextId"`
		Status    status         `json:"status"`
		Artifacts []artifact     `json:"artifacts"`
		History   []message      `json:"history"`
		Metadata  map[string]any `json:"metadata"`
	}

	status struct {
		State     state     `json:"state"`
		Message   *message  `json:"message"`
		Timestamp time.Time `json:"timestamp"`
	}

	message struct {
		MessageID  string         `json:"messageId"`
		ContextID  string         `json:"contextId"`
		TaskID     string         `json:"taskId"`
		Role       string         `json:"role"`
		Parts      []part         `json:"parts"`
		Extensions []string       `json:"extensions"`
		Metadata   map[string]any `json:"metadata"`
	}

	part struct {
		Text string         `json:"text"`
		Data map[string]any `json:"data"`
	}

	artifact struct {
		ArtifactID string         `json:"artifactId"`
		Name       string         `json:"name"`
		Parts      []part         `json:"parts"`
		Extensions []string       `json:"extensions"`
		Metadata   map[string]any `json:"metadata"`
	}

	statusUpdate struct {
		TaskID    string         `json:"taskId"`
		ContextID string         `json:"contextId"`
		Status    status         `json:"status"`
		Final     bool           `json:"final"`
		Metadata  map[string]any `json:"metadata"`
	}

	artifactUpdate struct {
		TaskID    string   `json:"taskId"`
		ContextID string   `json:"contextId"`
		Artifact  artifact `json:"artifact"`
		Append    bool     `json:"append"`
		LastChunk bool     `json:"lastChunk"`
	}
)

func (s *state) UnmarshalJSON(data []byte) error {
	var text string
	err := json.Unmarshal(data, &text)
	*s = state(strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(text, "TASK_STATE_")), "_", "-"))
	return err
}

func (e *update) UnmarshalJSON(data []byte) error {
	type plain update
	var old struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(data, &old); err != nil {
		return err
	}
	switch old.Kind {
	case "task":
		return json.Unmarshal(data, &e.Task)
	case "message":
		return json.Unmarshal(data, &e.Message)
	case "status-update":
		return json.Unmarshal(data, &e.Status)
	case "artifact-update":
		return json.Unmarshal(data, &e.Artifact)
	}
	return json.Unmarshal(data, (*plain)(e))
}

func textOf(parts []part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// texts returns what a task's artifacts say, each with its author.
func (t *task) texts() (texts []string) {
	for _, a := range t.Artifacts {
		texts = append(texts, a.Name+": "+textOf(a.Parts))
	}
	return texts
}

// assemble puts artifacts together from their updates, as a client does.
func assemble(events []update) *task {
	t := &task{}
	for _, e := range events {
		switch {
		case e.Task != nil:
			*t = *e.Task
		case e.Status != nil:
			t.Status = e.Status.Status
		case e.Artifact != nil:
			t.put(e.Artifact)
		}
	}
	return t
}

func (t *task) put(u *artifactUpdate) {
	for i := range t.Artifacts {
		if t.Artifacts[i].ArtifactID != u.Artifact.ArtifactID {
			continue
		}
		if u.Append {
			t.Artifacts[i].Parts = append(t.Artifacts[i].Parts, u.Artifact.Parts...)
		} else {
			t.Artifacts[i] = u.Artifact
		}
		return
	}
	t.Artifacts = append(t.Artifacts, u.Artifact)
}
