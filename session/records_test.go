package session_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// places numbers events as a store and a tail do.
func places(events ...*event.Event) (at []session.Position) {
	var p session.Position
	for _, e := range events {
		if p.Part++; !e.Partial {
			p = session.Position{Seq: p.Seq + 1}
			e.Seq = p.Seq
		}
		at = append(at, p)
	}
	return at
}

func said(id string, partial bool, text string) *event.Event {
	return &event.Event{ID: id, RunID: "r", Agent: "a", Partial: partial, Data: &event.Text{Content: text}}
}

func stored(id, run, scope string, data event.Data) *event.Event {
	return &event.Event{ID: id, RunID: run, Scope: scope, Agent: "a", Data: data}
}

// TestRecordsSayWhatAnEventIsAbout: calls, questions, failures and people that earlier events tell of.
func TestRecordsSayWhatAnEventIsAbout(t *testing.T) {
	call := stored("c", "r", "", &event.ToolCall{Name: "pay"})
	question := stored("q", "r", "", &event.Relay{ToolCallID: "c", Tool: "pay"})
	failure := &event.Failure{Code: "broken"}
	inner := stored("s", "r2", "x", &event.HarnessStart{})
	inner.ParentID = "c"
	person := stored("p", "r3", "", &event.Text{Content: "Hello."})
	person.Agent = agent.Human
	var r session.Reader
	next := func(e *event.Event) session.Record { return r.Next(e) }

	next(stored("u", "u", "", &event.User{}))
	require.Nil(t, next(stored("c0", "r", "", &event.ToolResult{})).Call, "its call was not read")
	next(call)
	require.Equal(t, call, next(inner).Call)
	require.Equal(t, call, next(question).Call)
	require.Equal(t, []*event.Event{question}, r.Questions)
	require.Equal(t, []*event.Relay{question.Data.(*event.Relay)}, r.Pending())
	for range 2 {
		require.Equal(t, question, next(stored("d", "r", "", &event.RelayResolved{RelayID: "q"})).Question)
		require.Empty(t, r.Questions)
	}
	next(stored("f", "r2", "x", failure))
	require.Nil(t, next(stored("e", "r", "", &event.HarnessEnd{FinishReason: event.FinishReasonTransfer})).Failure, "another run failed")
	failed := stored("e", "r2", "x", &event.HarnessEnd{FinishReason: event.FinishReasonError})
	require.Equal(t, failure, next(failed).Failure)
	require.Nil(t, next(failed).Failure, "it was told")
	next(stored("f", "r2", "x", failure))
	require.Equal(t, call, next(stored("", "r", "", &event.ToolProgress{ToolCallID: "c"})).Call)
	require.Equal(t, call, next(stored("", "r", "", &event.File{ToolCallID: "c"})).Call)
	next(stored("u", "u", "", &event.User{}))
	require.Nil(t, next(failed).Failure, "that was another turn")
	require.Equal(t, call, next(stored("c", "r", "", &event.ToolResult{})).Call, "the next turn withdraws it")
	require.Nil(t, next(stored("c", "r", "", &event.ToolResult{})).Call, "it has its result")

	next(stored("h", "r3", "", &event.HandoffStatus{Status: "active", TargetAgent: "Ann"}))
	next(stored("h", "r3", "x", &event.HandoffStatus{Status: "active", TargetAgent: "Bob"}))
	require.Equal(t, "Ann", next(person).Block.Speaker)
	next(stored("h", "r3", "", &event.HandoffStatus{Status: "completed"}))
	require.Equal(t, agent.Human, next(person).Block.Speaker)
}

// TestRecordsOfQuestions: a result withdraws the questions about its call, and the end of a run all.
func TestRecordsOfQuestions(t *testing.T) {
	var r session.Reader
	ask := func(id, call string) { r.Next(stored(id, "r", "x", &event.Relay{ToolCallID: call})) }
	ask("q1", "c1")
	ask("q2", "c2")
	held := r.Questions
	r.Next(stored("c1", "r", "x", &event.ToolResult{}))
	require.Len(t, r.Questions, 1)
	require.Equal(t, "q1", held[0].ID, "what a caller holds does not change")
	r.Next(stored("e", "r", "", &event.HarnessEnd{FinishReason: event.FinishReasonInputRequired}))
	r.Next(stored("e", "r2", "y", &event.HarnessEnd{FinishReason: event.FinishReasonStop}))
	require.Len(t, r.Questions, 1)
	r.Next(stored("e", "r", "", &event.HarnessEnd{FinishReason: event.FinishReasonCanceled}))
	require.Empty(t, r.Questions)
	require.Len(t, r.Asked, 2)
	r.Next(stored("u", "u", "", &event.User{}))
	require.Empty(t, r.Asked)
}

// TestRecordsOfTexts: what of a block is new, and what does not count.
func TestRecordsOfTexts(t *testing.T) {
	discard := func(ids ...string) *event.Event { return stored("v", "r", "", &event.Discard{IDs: ids}) }
	end := stored("e", "r", "", &event.HarnessEnd{FinishReason: event.FinishReasonStop, Output: []byte(`"42"`)})
	inner, other := *end, *end
	inner.Scope, other.RunID, other.Data = "x", "r2", &event.HarnessEnd{}
	for name, c := range map[string]struct {
		events []*event.Event
		want   string
	}{
		"whole":          {[]*event.Event{said("1", false, "Hi.")}, "(Hi.)"},
		"empty":          {[]*event.Event{said("1", true, ""), said("1", false, "")}, ""},
		"streamed":       {[]*event.Event{said("1", true, "H"), said("1", true, "i"), said("1", false, "Hi.")}, "(Hi.)"},
		"two at once":    {[]*event.Event{said("1", true, "H"), said("2", true, "Y"), said("1", false, "Hi"), said("2", false, "Yo")}, "(H(Yi)o)"},
		"other text":     {[]*event.Event{said("1", true, "Ho"), said("1", false, "Hi.")}, "(Ho!1(Hi.)"},
		"discarded":      {[]*event.Event{said("1", true, "Ho"), discard("1", "2"), said("3", false, "Hi.")}, "(Ho!1(Hi.)"},
		"the last first": {[]*event.Event{said("1", true, "a"), said("2", true, "b"), discard("1", "2")}, "(a(b!2!1"},
		"never ended":    {[]*event.Event{said("1", true, "Ho"), end}, "(Ho!1(42)"},
		"another's end":  {[]*event.Event{said("1", true, "H"), &other, said("1", true, "i")}, "(Hi"},
		"an output":      {[]*event.Event{end}, "(42)"},
		"an inner one":   {[]*event.Event{&inner}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, told(t, places(c.events...), c.events))
		})
	}
}

// told writes records: ( begins a block, ) completes one, ! takes one back, by its id.
func told(t require.TestingT, at []session.Position, events []*event.Event) (out string) {
	var r session.Reader
	shown := make(map[*session.Block]string)
	for i, e := range events {
		rec := r.NextAt(at[i], e)
		for _, b := range rec.Void {
			require.Contains(t, shown, b)
			delete(shown, b)
			out += "!" + b.ID
		}
		b := rec.Block
		if b == nil {
			continue
		}
		_, known := shown[b]
		require.Equal(t, rec.Fresh, !known)
		if rec.Fresh {
			out += "("
		}
		shown[b] += rec.NewText
		out += rec.NewText
		if !rec.Partial {
			require.Equal(t, rec.WholeText, shown[b], "the pieces are together the text")
			delete(shown, b)
			out += ")"
		}
	}
	require.Len(t, r.Blocks, len(shown))
	return out
}

// TestRecordsBehindHoles: after a missing delta no delta counts, until the next stored event.
func TestRecordsBehindHoles(t *testing.T) {
	var r session.Reader
	shown := func(seq, part int64) bool {
		return r.NextAt(session.Position{Seq: seq, Part: part}, said(fmt.Sprint(seq), true, "a")).Block != nil
	}
	require.True(t, shown(1, 1))
	require.False(t, shown(1, 3), "1-2 is missing")
	require.False(t, shown(1, 4))
	r.NextAt(session.Position{Seq: 2}, stored("n", "r", "", &event.Notice{}))
	require.True(t, shown(2, 1))
	require.False(t, shown(3, 2), "3-1 is missing")
	require.True(t, shown(4, 1))
	require.True(t, shown(0, 0), "nobody has numbered it")
	require.Equal(t, session.Position{Seq: 4, Part: 1}, r.At)
}

// TestRecordsWithHoles: whichever deltas are missing, what was said is what is stored, and nothing is taken back.
func TestRecordsWithHoles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var events []*event.Event
		want := ""
		for id := range rapid.IntRange(1, 4).Draw(t, "blocks") {
			text := ""
			for range rapid.IntRange(0, 6).Draw(t, "deltas") {
				piece := rapid.SampledFrom([]string{"a", "b ", " ", "cd"}).Draw(t, "piece")
				text += piece
				events = append(events, said(fmt.Sprint(id), true, piece))
			}
			events = append(events, said(fmt.Sprint(id), false, text))
			if text != "" {
				want += "(" + text + ")"
			}
		}
		at := places(events...)
		for i := len(events) - 1; i >= 0; i-- {
			if events[i].Partial && rapid.Bool().Draw(t, "miss") {
				events, at = slices.Delete(events, i, i+1), slices.Delete(at, i, i+1)
			}
		}
		require.Equal(t, want, told(t, at, events))
	})
}

// TestRecordsOfAnyLog: one by one, in a sequence or from the beginning of any turn, records are the same, and the
// reader does not grow.
func TestRecordsOfAnyLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var events []*event.Event
		var turns []int
		for turn := range rapid.IntRange(1, 4).Draw(t, "turns") {
			turns = append(turns, len(events))
			events = append(events, stored("u", "u", "", &event.User{}))
			for range rapid.IntRange(0, 12).Draw(t, "events") {
				events = append(events, drawn(t, turn))
			}
			// What a turn leaves open is closed, as runners do it.
			for n := range 3 {
				events = append(events, stored(fmt.Sprint("c", turn, n), "r", "", &event.ToolResult{}))
				events = append(events, stored("e", fmt.Sprint("r", turn, n), "", &event.HarnessEnd{FinishReason: event.FinishReasonStop}))
			}
		}
		places(events...)
		all := records(t, events)
		for _, from := range turns {
			require.Equal(t, all[from:], records(t, events[from:]), "from %d", from)
		}
		var r session.Reader
		for i, e := range events {
			require.Equal(t, all[i], written(r.Next(e)))
		}
		require.Empty(t, r.Blocks)
		require.Empty(t, r.Questions)
	})
}

func records(t require.TestingT, events []*event.Event) (all []string) {
	for rec, err := range session.Records(each(events, nil)) {
		require.NoError(t, err)
		all = append(all, written(rec))
	}
	return all
}

// written is all of a record, which is valid until the next one.
func written(rec session.Record) string {
	s := fmt.Sprintf("%p %p %p %p %v %q %q", rec.Event, rec.Call, rec.Question, rec.Failure, rec.Fresh, rec.NewText, rec.WholeText)
	for _, b := range append(rec.Void, rec.Block) {
		if b != nil {
			s += fmt.Sprintf(" %p %s %q", b.Event, b.Speaker, b.Shown)
		}
	}
	return s
}

func drawn(t *rapid.T, turn int) *event.Event {
	n := fmt.Sprint(turn, rapid.IntRange(0, 2).Draw(t, "n"))
	e := stored("b"+n, "r"+n, rapid.SampledFrom([]string{"", "x"}).Draw(t, "scope"), nil)
	call := "c" + n
	switch rapid.IntRange(0, 9).Draw(t, "type") {
	case 0, 1:
		e.Data = &event.Text{Content: rapid.SampledFrom([]string{"", "a", "ab"}).Draw(t, "text")}
		e.Partial = rapid.Bool().Draw(t, "partial")
	case 2:
		e.Data = &event.Discard{IDs: []string{"b" + n}}
	case 3:
		e.ID, e.Data = call, &event.ToolCall{Name: "look"}
	case 4:
		e.ID, e.Data = call, &event.ToolResult{}
	case 5:
		e.ID, e.Data = "q"+n, &event.Relay{ToolCallID: call}
	case 6:
		e.Data = &event.RelayResolved{RelayID: "q" + n}
	case 7:
		e.Data = &event.Failure{Code: "broken"}
	case 8:
		e.Data = &event.HarnessEnd{FinishReason: event.FinishReasonInputRequired}
	default:
		e.ParentID, e.Data = call, &event.HarnessStart{}
	}
	return e
}

func each(events []*event.Event, err error) func(func(*event.Event, error) bool) {
	return func(yield func(*event.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// TestRecordsEndWithTheError: the error of the events is the last that is yielded.
func TestRecordsEndWithTheError(t *testing.T) {
	broken := errors.New("broken")
	var got []error
	for _, err := range session.Records(each([]*event.Event{stored("u", "u", "", &event.User{})}, broken)) {
		got = append(got, err)
	}
	require.Equal(t, []error{nil, broken}, got)
	for range session.Records(each([]*event.Event{stored("u", "u", "", &event.User{})}, broken)) {
		break
	}
}

// TestArrivals counts the first answer of another agent than the one that answered last, and not what was asked before the transfer.
func TestArrivals(t *testing.T) {
	var a session.Arrivals
	var got []int
	apply := func(scope, agent string, d event.Data) {
		if u, anew := a.Apply(&event.Event{Scope: scope, Agent: agent, Data: d}); u != nil {
			got = append(got, anew)
		}
	}
	used := func(input, cached int) *event.Usage { return &event.Usage{InputTokens: input, CachedTokens: cached} }
	apply("", "router", &event.Transfer{From: "router", To: "a", Outcome: event.TransferCommitted}) // which asks no model
	apply("", "a", used(10, 0))
	apply("", "a", used(11, 0))
	apply("inner", "b", used(12, 0))
	apply("", "b", &event.Discard{Code: event.CodeAnticipated, Usage: used(13, 0)})
	apply("", "b", &event.Discard{Code: "overloaded"})
	apply("", "router", &event.Transfer{From: "router", To: "a", Outcome: event.TransferCommitted})
	apply("", "a", used(14, 0))
	require.Empty(t, got)
	apply("", "b", used(30, 20))
	apply("", "b", used(31, 0))
	apply("", "a", &event.Discard{Code: "overloaded", Usage: used(7, 0)}) // the next message was for a again
	apply("", "a", used(40, 7))
	require.Equal(t, []int{10, 7}, got)
}
