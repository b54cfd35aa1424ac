package a2atest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// Answer is what the peer does with one message. The zero value completes the task without a text. Answers are values:
// a script may contain the same answer several times.
type Answer struct {
	ops       []op
	checks    []func(*sdk.SendMessageRequest) error
	metadata  map[string]any
	artifacts int
	isMessage bool
	ended     bool   // an item ended it, so nothing can follow
	wrong     string // why the answer is impossible
}

// op is one step of an answer.
type op struct {
	// Exactly one of these is set.
	artifact *artifact
	state    sdk.TaskState
	message  bool
	waits    bool            // until ch is closed
	ch       <-chan struct{} // nil: never closed
	cut      error           // ends the open streams, but not the task
	fail     error           // ends the call and the task

	parts  []*sdk.Part // for state and message
	outage int         // for cut: the number of further calls that fail
}

// artifact is a piece of an artifact, or a complete one.
type artifact struct {
	number int // within the answer
	parts  []*sdk.Part
	more   bool // the piece is appended
	last   bool
}

// Item is one piece of an [Answer]; see [Reply]. The zero value does nothing.
type Item struct{ apply func(*Answer) }

// Reply returns an answer with these items, which happen in their order. [Metadata] and the expectations may be at any
// position. An item after one that ends the answer is a mistake, which [Mock.Done] reports.
func Reply(items ...Item) Answer {
	var a Answer
	for _, i := range items {
		if i.apply != nil {
			i.apply(&a)
		}
	}
	return a
}

func (a *Answer) push(o op) {
	if a.ended && a.wrong == "" {
		a.wrong = "items follow the one that ends it"
	}
	a.ops = append(a.ops, o)
}

// ends returns an item that nothing can follow.
func ends(o op) Item {
	return Item{func(a *Answer) {
		a.push(o)
		a.ended = true
	}}
}

// Text sends an artifact with text. A stream sends each delta as a separate update.
func Text(deltas ...string) Item {
	return Item{func(a *Answer) {
		a.artifacts++
		for i, d := range deltas {
			a.push(op{artifact: &artifact{number: a.artifacts, parts: words(d), more: i > 0, last: i == len(deltas)-1}})
		}
	}}
}

// Snapshots sends an artifact with text as peers without deltas do: each text replaces the previous one.
func Snapshots(texts ...string) Item {
	return Item{func(a *Answer) {
		a.artifacts++
		for i, t := range texts {
			a.push(op{artifact: &artifact{number: a.artifacts, parts: words(t), last: i == len(texts)-1}})
		}
	}}
}

// Parts sends an artifact with any parts, such as a data part. The parts are shared and must not change.
func Parts(parts ...*sdk.Part) Item {
	return Item{func(a *Answer) {
		a.artifacts++
		a.push(op{artifact: &artifact{number: a.artifacts, parts: slices.Clone(parts), last: true}})
	}}
}

// Progress sends a status update with a text.
func Progress(text string) Item {
	return Item{func(a *Answer) { a.push(op{state: sdk.TaskStateWorking, parts: words(text)}) }}
}

// Message answers with a message and without a task. Only waits can precede it.
func Message(text string) Item {
	return Item{func(a *Answer) {
		if slices.ContainsFunc(a.ops, func(o op) bool { return !o.waits }) {
			a.wrong = "a message is an answer without a task: only waits can precede it"
		}
		a.push(op{message: true, parts: words(text)})
		a.ended, a.isMessage = true, true
	}}
}

// Completed ends the task with a text in its last status. If no item ends the task, it is completed without a text.
func Completed(text string) Item { return state(sdk.TaskStateCompleted, text) }

// Failed ends the task as failed; text may be empty.
func Failed(text string) Item { return state(sdk.TaskStateFailed, text) }

// Rejected ends the task as rejected; text may be empty.
func Rejected(text string) Item { return state(sdk.TaskStateRejected, text) }

// Canceled ends the task as if another client canceled it; text may be empty.
func Canceled(text string) Item { return state(sdk.TaskStateCanceled, text) }

// InputRequired asks the user for input. The next message to the task gets the next answer of the script.
func InputRequired(text string) Item { return state(sdk.TaskStateInputRequired, text) }

func state(s sdk.TaskState, text string) Item {
	return ends(op{state: s, parts: words(text)})
}

// AuthRequired asks the user to log in somewhere. When a client next gets the task or subscribes to it, the user has
// done so, and the following items run. Without following items, the task stays in this state until it gets a message.
func AuthRequired(text string) Item {
	return Item{func(a *Answer) { a.push(op{state: sdk.TaskStateAuthRequired, parts: words(text)}) }}
}

// WaitFor waits until ch is closed. If ch is nil, it waits as [Block] does.
func WaitFor(ch <-chan struct{}) Item {
	return Item{func(a *Answer) { a.push(op{waits: true, ch: ch}) }}
}

// Block waits until the task is canceled or the caller gives up.
func Block() Item { return ends(op{waits: true}) }

// Cut breaks the connections of all clients that follow the task: their calls fail with io.ErrUnexpectedEOF. The task
// continues, and clients can get it.
func Cut() Item { return Outage(0) }

// Outage is like [Cut], but the next calls of every kind also fail in the same way.
func Outage(calls int) Item {
	return Item{func(a *Answer) { a.push(op{cut: io.ErrUnexpectedEOF, outage: calls}) }}
}

// Fail ends the call with err, such as sdk.ErrUnauthenticated or a network error. If it is the first item, there is no
// task; otherwise the peer loses the task.
func Fail(err error) Item {
	if err == nil {
		err = errors.New("a2atest: Fail was given no error")
	}
	return ends(op{fail: err})
}

// Metadata adds metadata to all events, artifacts and messages of the answer.
func Metadata(key string, value any) Item {
	return Item{func(a *Answer) {
		a.metadata = maps.Clone(a.metadata)
		if a.metadata == nil {
			a.metadata = map[string]any{}
		}
		a.metadata[key] = value
	}}
}

// Expect checks the request before the answer begins. If check returns an error, the call fails and [Mock.Done] reports
// the error.
func Expect(check func(*sdk.SendMessageRequest) error) Item {
	return Item{func(a *Answer) { a.checks = append(a.checks, check) }}
}

// ExpectText requires that the texts of the message, joined with line feeds, contain text.
func ExpectText(text string) Item {
	return Expect(func(req *sdk.SendMessageRequest) error {
		if got := plain(req.Message); !strings.Contains(got, text) {
			return fmt.Errorf("the message is %q and does not contain %q", got, text)
		}
		return nil
	})
}

// ExpectWords requires that the message consists of exactly these texts.
func ExpectWords(texts ...string) Item {
	return Expect(func(req *sdk.SendMessageRequest) error {
		var got []string
		for _, p := range req.Message.Parts {
			if p != nil {
				got = append(got, p.Text())
			}
		}
		if !slices.Equal(got, texts) {
			return fmt.Errorf("the parts of the message are %q, not %q", got, texts)
		}
		return nil
	})
}

// ExpectTask requires that the message continues a task.
func ExpectTask() Item {
	return Expect(func(req *sdk.SendMessageRequest) error {
		if req.Message.TaskID == "" {
			return errors.New("the message names no task, but should continue one")
		}
		return nil
	})
}

// script returns the steps of an answer, including the last one.
func (a *Answer) script() []op {
	if a.ended || len(a.ops) > 0 && a.ops[len(a.ops)-1].state == sdk.TaskStateAuthRequired {
		return a.ops
	}
	return append(slices.Clip(a.ops), op{state: sdk.TaskStateCompleted})
}

func words(text string) []*sdk.Part {
	if text == "" {
		return nil
	}
	return []*sdk.Part{sdk.NewTextPart(text)}
}

func plain(m *sdk.Message) string {
	var texts []string
	for _, p := range m.Parts {
		if p != nil && p.Text() != "" {
			texts = append(texts, p.Text())
		}
	}
	return strings.Join(texts, "\n")
}
