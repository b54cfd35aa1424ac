package a2a

import (
	"runtime"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var info = sdk.TaskInfo{TaskID: "t1", ContextID: "c1"}

func text(s string) *sdk.Part { return sdk.NewTextPart(s) }

func says(id, s string) *sdk.Message {
	m := sdk.NewMessageForTask(sdk.MessageRoleAgent, info, text(s))
	m.ID = id
	return m
}

func delta(id sdk.ArtifactID, s string) sdk.Event {
	return sdk.NewArtifactUpdateEvent(info, id, text(s))
}

func whole(id sdk.ArtifactID, s string) sdk.Event {
	e := sdk.NewArtifactUpdateEvent(info, id, text(s))
	e.Append = false
	return e
}

func state(s sdk.TaskState, m *sdk.Message) sdk.Event { return sdk.NewStatusUpdateEvent(info, s, m) }

func artifact(id sdk.ArtifactID, s string) *sdk.Artifact {
	return &sdk.Artifact{ID: id, Parts: sdk.ContentParts{text(s)}}
}

func task(s sdk.TaskStatus, artifacts ...*sdk.Artifact) *sdk.Task {
	return &sdk.Task{ID: "t1", ContextID: "c1", Status: s, Artifacts: artifacts}
}

func TestAnswer(t *testing.T) {
	done := sdk.TaskStateCompleted
	for name, c := range map[string]struct {
		events []sdk.Event
		shown  string
		text   string
	}{
		"deltas":                           {[]sdk.Event{delta("a", "one "), delta("a", "two"), state(done, nil)}, "one two", "one two"},
		"deltas and a snapshot":            {[]sdk.Event{delta("a", "one "), delta("a", "two"), whole("a", "one two"), state(done, nil)}, "one two", "one two"},
		"deltas and a task":                {[]sdk.Event{delta("a", "one "), delta("a", "two"), task(sdk.TaskStatus{State: done}, artifact("a", "one two"))}, "one two", "one two"},
		"growing snapshots":                {[]sdk.Event{whole("a", "one"), whole("a", "one two"), state(done, nil)}, "one two", "one two"},
		"a snapshot that takes words back": {[]sdk.Event{whole("a", "one"), whole("a", "two"), state(done, nil)}, "one", "two"},
		"words taken back and given again": {[]sdk.Event{whole("a", "one"), whole("a", "x"), whole("a", "one two"), state(done, nil)}, "one two", "one two"},
		"two artifacts":                    {[]sdk.Event{delta("a", "one"), delta("b", "two"), state(done, nil)}, "one\n\ntwo", "one\n\ntwo"},
		"two artifacts in turn":            {[]sdk.Event{delta("a", "one"), delta("b", "two"), delta("a", "!"), state(done, nil)}, "one\n\ntwo", "one!\n\ntwo"},
		"the status repeats the artifact":  {[]sdk.Event{delta("a", "one"), state(done, says("m", "one"))}, "one", "one"},
		"the status adds to the artifact":  {[]sdk.Event{delta("a", "one"), state(done, says("m", "two"))}, "one", "one\n\ntwo"},
		"the status alone":                 {[]sdk.Event{state(done, says("m", "one"))}, "", "one"},
		"progress is no answer":            {[]sdk.Event{state(sdk.TaskStateWorking, says("p", "searching")), delta("a", "one"), state(done, nil)}, "one", "one"},
		"progress is all there is":         {[]sdk.Event{state(sdk.TaskStateWorking, says("p", "one")), state(sdk.TaskStateWorking, says("q", "two")), state(done, nil)}, "", "one\n\ntwo"},
		"the history of a task": {[]sdk.Event{&sdk.Task{ID: "t1", ContextID: "c1", Status: sdk.TaskStatus{State: done},
			History: []*sdk.Message{sdk.NewMessage(sdk.MessageRoleUser, text("hi")), says("m", "one")}}}, "", "one"},
		"a message": {[]sdk.Event{sdk.NewMessage(sdk.MessageRoleAgent, text("one"))}, "", "one"},
		"data and files": {[]sdk.Event{sdk.NewMessage(sdk.MessageRoleAgent, text("see "), sdk.NewDataPart(map[string]any{"n": 1}), sdk.NewFileURLPart("https://x.test/y", "image/png"))},
			"", `see {"n":1}`},
		"a question about a call": {[]sdk.Event{state(sdk.TaskStateInputRequired, &sdk.Message{ID: "q", Parts: sdk.ContentParts{text("May it run?"),
			sdk.NewDataPart(map[string]any{"callId": "c", "tool": "refund", "params": map[string]any{}})}})}, "", "May it run?"},
		"data beside words": {[]sdk.Event{sdk.NewMessage(sdk.MessageRoleAgent, text("see:"), sdk.NewDataPart(1))}, "", "see:\n1"},
		"facts for programs": {[]sdk.Event{state(sdk.TaskStateWorking, &sdk.Message{ID: "f", Extensions: []string{Extension}, Parts: sdk.ContentParts{sdk.NewDataPart(1)}}),
			state(done, nil)}, "", ""},
		"nothing": {[]sdk.Event{state(done, nil)}, "", ""},
		"nil parts": {[]sdk.Event{&sdk.TaskArtifactUpdateEvent{}, &sdk.Task{ID: "t1", Artifacts: []*sdk.Artifact{nil, {Parts: sdk.ContentParts{nil}}},
			History: []*sdk.Message{nil}, Status: sdk.TaskStatus{State: done}}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var a answer
			shown := ""
			for _, e := range c.events {
				require.False(t, a.complete())
				a.add(e)
				shown += a.nextDelta()
			}
			require.True(t, a.complete())
			require.Equal(t, c.shown, shown)
			require.Equal(t, c.text, a.text())
		})
	}
}

// What a task held before it got new words is no part of the answer to them.
func TestBaseline(t *testing.T) {
	before := task(sdk.TaskStatus{State: sdk.TaskStateInputRequired, Message: says("q", "Which one?")}, artifact("a", "Two."))
	before.History = []*sdk.Message{says("p", "searching")}
	var a answer
	a.excludeTask(before)
	after := task(sdk.TaskStatus{State: sdk.TaskStateCompleted}, artifact("a", "Two. One is gone."), artifact("b", "Refunded."))
	after.History = []*sdk.Message{says("p", "searching"), says("q", "Which one?")}
	a.add(after)
	require.Equal(t, " One is gone.\n\nRefunded.", a.text())

	a = answer{}
	a.excludeTask(before)
	a.add(before)
	require.Equal(t, "Which one?", a.text(), "a task that asks again has asked again")
}

// However an artifact is cut into deltas and snapshots, its text is there once,
// and what is shown is what is said.
func TestArtifactsAreNeverDoubled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.StringMatching(`[ab]{1,30}`).Draw(t, "text")
		var a answer
		shown, sent := "", 0
		for sent < len(want) {
			n := rapid.IntRange(1, len(want)-sent).Draw(t, "n")
			sent += n
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				a.add(delta("a", want[sent-n:sent]))
			case 1:
				a.add(whole("a", want[:sent]))
			case 2:
				a.add(task(sdk.TaskStatus{State: sdk.TaskStateWorking}, artifact("a", want[:sent])))
			}
			if rapid.Bool().Draw(t, "show") {
				shown += a.nextDelta()
			}
		}
		a.add(task(sdk.TaskStatus{State: sdk.TaskStateCompleted, Message: says("m", want)}, artifact("a", want)))
		shown += a.nextDelta()
		if a.text() != want || shown != want {
			t.Fatalf("said %q, shown %q, want %q", a.text(), shown, want)
		}
	})
}

// A peer that has a long answer and changes one word of it again and again does not make
// us go through all of it each time.
func TestManySmallChanges(t *testing.T) {
	var a answer
	a.add(whole("a", strings.Repeat("word ", 1<<18)))
	a.nextDelta()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range 4000 {
		a.add(whole("b", string(rune('a'+i%2))))
		a.nextDelta()
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<30))
	a.add(state(sdk.TaskStateCompleted, nil))
	require.True(t, strings.HasSuffix(a.text(), "word \n\nb"))
}
