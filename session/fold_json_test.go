package session_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// differ returns where two values are not the same, "" if they are: nothing and an empty list
// are.
func differ(path string, a, b reflect.Value) string {
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				return path + ": one is nil"
			}
			return ""
		}
		if a.Elem().Type() != b.Elem().Type() {
			return path + ": of different types"
		}
		return differ(path, a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			name := a.Type().Field(i).Name
			if found := differ(path+"."+name, a.Field(i), b.Field(i)); found != "" {
				return found
			}
		}
		return ""
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return fmt.Sprintf("%s: %d and %d", path, a.Len(), b.Len())
		}
		for i := range a.Len() {
			if found := differ(fmt.Sprintf("%s[%d]", path, i), a.Index(i), b.Index(i)); found != "" {
				return found
			}
		}
		return ""
	case reflect.Map:
		if a.Len() != b.Len() {
			return fmt.Sprintf("%s: %d and %d", path, a.Len(), b.Len())
		}
		for _, key := range a.MapKeys() {
			if !b.MapIndex(key).IsValid() {
				return fmt.Sprintf("%s[%v]: one has it", path, key)
			}
			if found := differ(fmt.Sprintf("%s[%v]", path, key), a.MapIndex(key), b.MapIndex(key)); found != "" {
				return found
			}
		}
		return ""
	}
	if !a.Equal(b) {
		return fmt.Sprintf("%s: %v and %v", path, a, b)
	}
	return ""
}

func sameFold(t sessiontest.TB, want, got *session.Fold, words string) {
	if found := differ("fold", reflect.ValueOf(want).Elem(), reflect.ValueOf(got).Elem()); found != "" {
		t.Errorf("%s: %s", words, found)
	}
}

// restored is a fold made of the JSON of another one.
func restored(t require.TestingT, f *session.Fold) *session.Fold {
	data := must.Get(f.MarshalJSON())
	out := new(session.Fold)
	require.NoError(t, out.UnmarshalJSON(data))
	out.Turn.User = f.Turn.User // which is in the log
	return out
}

// anyLog draws the events of a log in which everything that a fold looks at happens, in any order
// and of few names.
func anyLog(rt *rapid.T) (log []*event.Event) {
	name := func(prefix string, n int) string { return fmt.Sprint(prefix, rapid.IntRange(0, n).Draw(rt, prefix)) }
	at := time.Unix(1_700_000_000, 5).UTC()
	turn := "t0"
	for range rapid.IntRange(0, 60).Draw(rt, "events") {
		at = at.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "pause")) * time.Second)
		e := &event.Event{Seq: int64(len(log) + 1), ID: name("c", 5), TurnID: turn, RunID: name("r", 4), Agent: name("a", 20), Path: "root", Time: at}
		e.Scope = rapid.SampledFrom([]string{"", "", "", "s1", "r1.1/a", "r2.1/b", "s2"}).Draw(rt, "scope")
		if rapid.Bool().Draw(rt, "caused") {
			e.ParentID = name("c", 5)
		}
		switch rapid.IntRange(0, 18).Draw(rt, "type") {
		case 0:
			turn = name("t", 9)
			e.TurnID, e.Scope, e.Data = turn, "", &event.User{Content: llm.Content{Text: name("words", 9)}, Metadata: map[string]any{"n": 1.0}}
		case 1, 2, 3:
			e.Data = &event.HarnessStart{AgentID: e.Agent, Input: rapid.SampledFrom([][]byte{nil, []byte(`"in"`)}).Draw(rt, "input")}
		case 4:
			e.Data = &event.HarnessEnd{AgentID: e.Agent, Target: name("a", 3),
				FinishReason: rapid.SampledFrom([]event.FinishReason{event.FinishReasonStop, event.FinishReasonTransfer, event.FinishReasonInputRequired, event.FinishReasonCanceled}).Draw(rt, "reason")}
		case 5:
			e.Data = &event.Text{Content: name("words", 2)}
		case 6, 7:
			e.Data = &event.ToolCall{Name: name("tool", 2), Input: []byte(`{}`)}
		case 8:
			e.Data = &event.ToolResult{Name: rapid.SampledFrom([]string{"tool0", agent.TransferTool}).Draw(rt, "of"), Output: []byte(`1`)}
		case 9:
			e.ID = name("q", 3)
			e.Data = &event.Relay{Kind: event.RelayPermission, ToolCallID: name("c", 5), Tool: "tool0", Params: []byte(`{"a":1}`), Within: []string{"a1"}}
		case 10:
			e.Data = &event.RelayResolved{RelayID: name("q", 3), Approved: true}
		case 11:
			e.Data = &event.Transfer{From: e.Agent, To: name("a", 3), Outcome: event.TransferCommitted, Payload: []byte(`{"x":1}`), GraphPath: []string{"a", "b"}}
		case 12:
			e.Data = &event.Usage{InputTokens: 3, OutputTokens: 2, Model: name("m", 2)}
		case 13:
			e.Data = &event.Discard{Code: "retry", Message: "cut", Usage: &event.Usage{InputTokens: 1}}
		case 14:
			e.Data = &event.Notice{Code: rapid.SampledFrom([]string{event.NoticeForked, event.NoticeResumed, "other"}).Draw(rt, "code"), Message: "words"}
		case 15:
			e.Data = &event.RemoteTask{TaskID: name("task", 2), URL: "https://example.test", Status: rapid.SampledFrom([]string{"working", "completed"}).Draw(rt, "status"), Usage: []event.Usage{{InputTokens: 1}}}
		case 16:
			e.Data = &event.State{Delta: map[string]any{name("turn:k", 2): 1.5, name("k", 2): rapid.SampledFrom([]any{nil, "v", true, []any{1.0, nil}, map[string]any{"a": "<b>"}}).Draw(rt, "value")}}
		case 18:
			e.Data = &event.Compaction{UpTo: rapid.Int64Range(0, e.Seq).Draw(rt, "up to")}
		case 17:
			e.Data = &event.HandoffStatus{HandoffID: "h", Status: rapid.SampledFrom([]string{"queued", "resolved"}).Draw(rt, "step"), TargetAgent: name("a", 3)}
		}
		log = append(log, e)
	}
	return log
}

// TestFoldJSON: a fold that was stored at any place of a log continues as one that was not.
func TestFoldJSON(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log := anyLog(rt)
		cut := rapid.IntRange(0, len(log)).Draw(rt, "cut")
		f, later := new(session.Fold), new(session.Fold)
		for _, e := range log[:cut] {
			f.Apply(e)
			later.Apply(e)
		}
		got := restored(rt, f)
		sameFold(rt, f, got, "read back")
		sameFold(rt, later, f, "a fold that was written")
		kept, clone := f.Clone(), f.Clone()
		for _, e := range log[cut:] {
			got.Apply(e)
			later.Apply(e)
			clone.Apply(e)
		}
		sameFold(rt, later, got, "after the rest of the log")
		sameFold(rt, later, &clone, "a copy after the rest of the log")
		sameFold(rt, f, &kept, "a copy of which another copy went on")
		for _, e := range log[cut:] {
			f.Apply(e)
		}
		sameFold(rt, later, f, "after its copy")
	})
}

// TestFoldJSONOfAllPayloads: no payload is one that cannot be written, wherever it stands.
func TestFoldJSONOfAllPayloads(t *testing.T) {
	f := new(session.Fold)
	for i, d := range sessiontest.Payloads() {
		f.Apply(&event.Event{Seq: int64(i + 1), ID: "c1", TurnID: "t", RunID: "r", Agent: "a", Time: time.Unix(int64(i), 0).UTC(), Data: d})
		sameFold(t, f, restored(t, f), (&event.Event{Data: d}).Type())
	}
}

// TestFoldJSONHasEverything names what a fold keeps. A field that is added gives the form a new number.
func TestFoldJSONHasEverything(t *testing.T) {
	fields := func(v any) (names []string) {
		for i := range reflect.TypeOf(v).NumField() {
			names = append(names, reflect.TypeOf(v).Field(i).Name)
		}
		return names
	}
	for _, c := range []struct {
		of   any
		want string
	}{
		{session.Fold{}, "Seq Turn Latest Before Conversation Scopes Over Values Spent Arrivals Times Remote Turns"},
		{session.Turn{}, "ID UserRunID First Started StopsFrom Transfers ModelCalls ToolCalls User"},
		{session.Scope{}, "Active LastEnd Run Input Root Opener First Node Handed Given Pairs BeganAt"},
		{session.Run{}, "ID Agent Path TurnID AgentID Since Start Before Open Finish Target Answers Pending TakesUp Said Transfer"},
		{session.Call{}, "ID Name RunID Made Number Relay Resolved Asks At"},
		{session.Opened{}, "Scope First Agent Input Over Canceled Call"},
		{session.Spent{}, "Agent Model Session Turn"},
		{session.Use{}, "Answers Reported Anew Usage"},
		{session.Arrivals{}, "Agent"},
		{session.Times{}, "Session Turn Agents"},
		{session.AgentTime{}, "Agent Session"},
		{session.Remote{}, "RemoteTask Scope Agent Path RunID TurnID Since First Way"},
		{session.Hosted{}, "Agent Inner Tool"},
		{agent.Turns{}, "Count Begun Compacted LastTransfer"},
		{agent.TurnStart{}, "Turn Seq"},
	} {
		require.Equal(t, strings.Fields(c.want), fields(c.of), "%T", c.of)
	}
}

// TestFoldJSONThatIsNone: what is damaged, or of another version, is an error.
func TestFoldJSONThatIsNone(t *testing.T) {
	r := run{"t1", "r1", "a", ""}
	data, err := foldOf(join(user("t1"), r.start(), r.call("c1", "x"))...).MarshalJSON()
	require.NoError(t, err)
	for _, none := range []string{"", "null", "[]", "{}", string(data[:len(data)/2]), strings.Replace(string(data), `"Form":6`, `"Form":5`, 1), "\x01\x02"} {
		got := new(session.Fold)
		require.Error(t, got.UnmarshalJSON([]byte(none)), "%q", none)
		sameFold(t, new(session.Fold), got, "a fold that could not be read")
	}
}

// TestFoldJSONKeepsDigits: numbers of the state are as in the log.
func TestFoldJSONKeepsDigits(t *testing.T) {
	r := run{"t1", "r1", "a", ""}
	f := foldOf(join(user("t1"), r.start(), r.state("n", json.Number("9007199254740993")), r.state("s", "<&>"), r.state("f", 1.5))...)
	sameFold(t, f, restored(t, f), "read back")
}
