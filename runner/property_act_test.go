package runner_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// act is one call of a runner's method, and what is known of it beforehand.
type act struct {
	start func(ctx context.Context) iter.Seq2[*event.Event, error]
	// whole: it goes on to the end of the turn, and its consumer can break out.
	whole bool
	// step: it is one step of an engine.
	step bool
	// silent: its consumer gets no events
	silent bool
	// said is what the user says.
	said *llm.Message
	// seeded: the turn begins with state.
	seeded bool
	// recalled are results that were recorded before and come first.
	recalled []*event.Event
	// left: the turn was adopted too often, and is not adopted again.
	left bool
	// adopts: it goes on with the turn as a process does that found it without an owner.
	adopts bool
	// dies is the number of the event after which its process is gone, 0 if that is not known beforehand.
	dies int
	// refused are the errors one of which it must return, storing nothing.
	refused []error
}

var (
	whenFresh      = rapid.SampledFrom([]string{"run", "run", "run", "begin", "resume", "advance", "decide"})
	whenPaused     = rapid.SampledFrom([]string{"decide", "decide", "decide", "decide", "run", "resume", "advance", "begin"})
	whenUnfinished = rapid.SampledFrom([]string{"advance", "resume", "advance", "resume", "run", "decide", "begin"})
)

// action does one thing that a program may do with a session.
func (w *world) action(r *runner.Runner) {
	choice := whenFresh
	switch {
	case w.story.paused:
		choice = whenPaused
	case w.story.unfinished:
		choice = whenUnfinished
	}
	what := choice.Draw(w.rt, "action")
	switch {
	case w.desk == nil:
	case w.story.active == agent.Human && oneInTen.Draw(w.rt, "with a person") >= 2:
		what = withPerson.Draw(w.rt, "said or done")
	case oneInTen.Draw(w.rt, "for a person") >= 5:
		what = forPerson.Draw(w.rt, "wish")
	}
	w.happened[what] = true
	w.acts = append(w.acts, what)
	switch what {
	case "run":
		msg, metadata := w.message(), hostileMetadata.Draw(w.rt, "metadata")
		if w.page {
			metadata = broughtTools
		}
		meta := runner.WithMetadata(metadata)
		seed, seeded := w.seed()
		given := runner.WithResults(w.clientResults()...)
		w.act(r, act{whole: true, said: &msg, seeded: seeded, start: func(ctx context.Context) iter.Seq2[*event.Event, error] {
			return r.Run(ctx, s1, msg, meta, seed, given)
		}})
	case "begin":
		msg := w.message()
		w.begin(r, msg)
	case "a person wanted":
		msg := w.message()
		w.act(r, act{whole: true, said: &msg, start: func(ctx context.Context) iter.Seq2[*event.Event, error] {
			return r.Run(ctx, s1, msg, runner.CallHuman("the button"))
		}})
	case "a word of the desk":
		w.deliver(r)
	case "the turn given up":
		w.act(r, act{start: func(ctx context.Context) iter.Seq2[*event.Event, error] { return whole(r.Cancel(ctx, s1)) }})
	case "resume":
		w.resume(r)
	case "advance":
		w.advance(r)
	case "decide":
		w.decide(r)
	}
}

// begin stores a message, twice if the turn has an id of its own: then the second one changes nothing.
func (w *world) begin(r *runner.Runner, msg llm.Message) {
	id := ""
	if oneInTen.Draw(w.rt, "an id of its own") >= 5 {
		id = fmt.Sprintf("own-%d", len(w.log))
	}
	begin := func(attempt int) func(ctx context.Context) iter.Seq2[*event.Event, error] {
		return func(ctx context.Context) iter.Seq2[*event.Event, error] {
			if id == "" {
				return wholePart(r.Begin(ctx, s1, msg))
			}
			return wholePart(r.Begin(ctx, s1, msg, runner.WithTurnID(id, attempt)))
		}
	}
	if clean := w.act(r, act{said: &msg, start: begin(1)}); clean && id != "" {
		w.happened["a turn begun twice"] = true
		before := len(w.log)
		w.act(r, act{start: begin(2)})
		if len(w.log) != before {
			w.t.Fatalf("a turn that was begun stored %d events when it was begun again", len(w.log)-before)
		}
	}
}

// resume goes on with a turn, sometimes as a process does that adopts it.
func (w *world) resume(r *runner.Runner) {
	unsure := w.unsettled()
	if !w.story.unfinished || oneInTen.Draw(w.rt, "adopted") < 5 && !unsure {
		w.act(r, act{whole: true, start: func(ctx context.Context) iter.Seq2[*event.Event, error] { return r.Resume(ctx, s1) }})
		return
	}
	if w.log[len(w.log)-1].IsNotice(event.NoticeStopped) {
		w.happened["a stopped turn that is left"] = true
		w.act(r, act{refused: []error{session.ErrStopped}, silent: true, start: func(ctx context.Context) iter.Seq2[*event.Event, error] { return r.Adopt(ctx, s1) }})
		return
	}
	w.happened["adopted"] = true
	again := func(dies int) {
		a := act{whole: true, adopts: true, left: w.adoptions() >= 3, dies: dies, start: func(ctx context.Context) iter.Seq2[*event.Event, error] { return r.Adopt(ctx, s1) }}
		if a.left {
			a.dies = 0
		}
		w.act(r, a)
	}
	for range adoptedTimes.Draw(w.rt, "deaths") {
		again(adoptedUntil.Draw(w.rt, "dies at event"))
	}
	switch next := oneInTen.Draw(w.rt, "who goes on"); {
	case next >= 8 && !unsure:
		return
	case next >= 4:
		w.advance(r)
		return
	}
	again(0)
}

var adoptedTimes = rapid.SampledFrom([]int{0, 0, 0, 1, 1, 1, 3, 5})

var adoptedUntil = rapid.SampledFrom([]int{1, 1, 1, 2, 3, 4})

// unsettled reports whether a tool has run for a call that has no result.
func (w *world) unsettled() bool {
	for id := range w.ran {
		if c := w.story.calls[id]; c != nil && c.result == nil {
			return true
		}
	}
	return false
}

// adoptions is how often the turn was adopted since it made progress, less the times when a server was stopped.
func (w *world) adoptions() (times int) {
	for _, e := range slices.Backward(w.log) {
		switch d := e.Data.(type) {
		case *event.Notice:
			switch {
			case d.Code == event.NoticeAdopted && e.Scope == "":
				times++
			case d.Code == event.NoticeGivenBack:
				times--
				w.happened["a server that gives a turn back"] = true
			}
		case *event.ToolProgress, *event.Discard:
		default:
			return times
		}
	}
	return times
}

// whole makes a sequence of what a method returns at once.
func wholePart(events []*event.Event, _ runner.TurnState, err error) iter.Seq2[*event.Event, error] {
	return whole(events, err)
}

func whole(events []*event.Event, err error) iter.Seq2[*event.Event, error] {
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

var userMessages = rapid.SampledFrom([]llm.Message{
	llm.UserText("Hello"), llm.UserText("a\x00 \u202e<b>\n"),
	llm.UserParts(llm.TextPart{Text: "See"}, llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte{1, 2}}),
	{Role: llm.RoleUser, Content: llm.Content{Text: "Both", Parts: []llm.Part{llm.Media{Kind: llm.MediaFile, MediaType: "text/plain", URL: "https://example.com/a.txt", Name: "a"}}}},
})

func (w *world) message() llm.Message {
	w.turn++
	messages := userMessages
	if oneInTen.Draw(w.rt, "hostile message") == 9 {
		messages = hostileMessages
	}
	m := messages.Draw(w.rt, "message")
	w.acts = append(w.acts, fmt.Sprintf("  says %.60q", m.PlainText()))
	return m
}

// advance takes some steps of the turn, as an engine would that makes turns
// durable: it says which try of the step each is.
func (w *world) advance(r *runner.Runner) {
	for range rapid.IntRange(1, 6).Draw(w.rt, "steps") {
		attempt, done := w.attempt, false
		if attempt == 1 {
			w.stepSeq = int64(len(w.log))
		}
		step := runner.Step{}
		if said := slices.IndexFunc(w.log, func(e *event.Event) bool { return e.Type() == event.TypeUser }); said >= 0 {
			step.Turn = w.log[len(w.log)-1].TurnID
		}
		if oneInTen.Draw(w.rt, "the position is known") >= 3 {
			step.Seq = w.stepSeq
		}
		if oneInTen.Draw(w.rt, "one more try") == 9 {
			attempt++ // the engine does not know that the last one came through
		}
		before := len(w.log)
		try := act{step: true, start: func(ctx context.Context) iter.Seq2[*event.Event, error] {
			step.Attempt = attempt
			events, state, err := r.Advance(ctx, s1, step)
			done = state.Over
			return whole(events, err)
		}}
		if last := step.Turn; last != "" && w.log[0].TurnID != last && oneInTen.Draw(w.rt, "of an earlier turn") == 9 {
			step.Turn, try.refused = w.log[0].TurnID, []error{runner.ErrTurnOver}
			w.act(r, try)
			w.happened["a step of an earlier turn"] = true
			step.Turn, try.refused = last, nil
		}
		if !w.act(r, try) {
			return
		}
		if step.Seq == int64(before) && w.stepwise(r, before) && oneInTen.Draw(w.rt, "nobody hears of it") >= 7 {
			stored := len(w.log)
			attempt++
			w.act(r, try)
			require.Len(w.t, w.log, stored, "a step was tried again that was done")
		}
		if done == w.story.unfinished {
			w.t.Fatalf("Advance says %v about the end of the turn, the log does not", done)
		}
		if !done && step.Seq > 0 && len(w.log) == before && step.Seq < int64(len(w.log)) {
			w.happened["a step that was done before"] = true
			w.attempt = 1
		}
		if done {
			return
		}
	}
}

// stepwise reports whether the turn is now at an agent whose steps can be told apart, and something was stored behind a position.
func (w *world) stepwise(r *runner.Runner, before int) bool {
	if before == len(w.log) || !w.story.unfinished {
		return false
	}
	last := w.log[len(w.log)-1]
	n := r.Tree().Node(last.Agent)
	return last.Scope == "" && n != nil && n.Properties.Stepwise
}

var decisions = rapid.SampledFrom([]string{"approve", "deny", ""})

// decide resumes with decisions: about what waits for one, about what somebody
// decided before, and about what nobody asked.
func (w *world) decide(r *runner.Runner) {
	var given []runner.Decision
	questions := w.story.questions
	for _, q := range questions[max(0, len(questions)-6):] {
		if q == q.call.last() {
			given = append(given, w.decision(q.asked)...)
		}
	}
	if len(given) > 0 && oneInTen.Draw(w.rt, "twice") == 9 {
		given = append(given, given[0])
	}
	if oneInTen.Draw(w.rt, "about nothing") == 9 {
		given = append(given, runner.Approve("nothing"))
	}
	for i := range given {
		if oneInFour.Draw(w.rt, "with state") == 0 {
			given[i].State = map[string]any{"decided": fmt.Sprint(len(w.log), "/", i)}
		}
	}
	w.acts = append(w.acts, fmt.Sprintf("  with the decisions %+v", given))
	a := act{whole: true, start: func(ctx context.Context) iter.Seq2[*event.Event, error] { return r.Resume(ctx, s1, given...) }}
	fresh := make(map[*question]runner.Decision)
	for _, d := range given {
		c := w.story.calls[d.CallID]
		switch {
		case c == nil || c.last() == nil:
			a.refused = append(a.refused, runner.ErrNoApproval)
		case (c.result != nil || c.last().resolved != nil) && (c.last().resolved == nil || !d.Equals(c.last().resolved)):
			a.refused = append(a.refused, runner.ErrNoApproval)
		case c.result != nil:
			a.recalled = append(a.recalled, c.result)
			w.happened["a decision that comes again"] = true
		case c.last().resolved != nil: // the turn was cut off since
		case fresh[c.last()].CallID != "", !fits(d, c.last().asked):
			a.refused = append(a.refused, agent.ErrBadInput)
		default:
			fresh[c.last()] = d
		}
	}
	if !w.act(r, a) || len(a.refused) > 0 {
		return
	}
	for q, d := range fresh {
		if q.resolved == nil || q.resolved.Approved != d.Approved || q.resolved.Reason != d.Reason || string(q.resolved.Content) != string(d.Content) {
			w.t.Fatalf("the decision %v was not taken: %v", d, q.resolved)
		}
		if d.State != nil {
			written := slices.DeleteFunc(slices.Clone(w.log), func(e *event.Event) bool {
				s, ok := e.Data.(*event.State)
				return !ok || s.Delta["decided"] != d.State["decided"]
			})
			require.Len(w.t, written, 1, "what the decision %v changes", d)
			w.happened["a decision that changes the state"] = true
		}
	}
}

var (
	outages   = []string{"store dies", "answer lost", "store fails"}
	someStops = rapid.SampledFrom([]string{"", "", "", "", "break", "cancel", "server stopped", "turn stopped", "store dies", "answer lost", "store fails", "busy", "peek"})
	stopAts   = rapid.IntRange(1, 30)
	writeAts  = rapid.IntRange(1, 8)
)

// act calls a runner, disturbs it at random, and checks all that must hold
// afterwards. It reports whether nothing has cut it off and it has not failed.
func (w *world) act(r *runner.Runner, a act) bool {
	ctx, stop := context.WithCancelCause(context.WithValue(context.Background(), worldKey{}, w))
	cancel := func() { stop(w.cause) }
	defer cancel()
	w.acts1(r)
	defer w.acts1(nil)
	w.key, w.stop, w.cause, w.stopped, w.stoppedAt, w.asked, w.acted = s1, cancel, nil, false, 0, 0, 0
	clear(w.taken)
	w.chosen = w.chosen[:0]
	how, at := "break", a.dies
	if at == 0 {
		how = someStops.Draw(w.rt, "disturb")
	}
	switch {
	case how == "", a.dies > 0:
	case slices.Contains(outages, how):
		n := writeAts.Draw(w.rt, "write")
		w.acts = append(w.acts, fmt.Sprintf("  disturbed by %q at write %d", how, n))
		w.store.dieAt(n, how == "answer lost", how == "store fails")
	default:
		if at = stopAts.Draw(w.rt, "at"); !a.whole {
			how = ""
		}
		w.acts = append(w.acts, fmt.Sprintf("  disturbed by %q at event %d, if there is one", how, at))
	}
	got := delivery{w: w, shown: make(map[string]bool)}
	n, broken := 0, false
	turn := a.start(ctx)
	if a.whole {
		turn = sessiontest.Turn(w.t, turn)
	}
	for e, err := range turn {
		got.take(e, err)
		if err != nil && slices.Contains(outages, how) {
			break // what was shown can neither be stored nor discarded
		}
		if n++; n != at || err != nil {
			continue
		}
		if how == "break" {
			broken = true
			break
		}
		w.disturb(r, how)
	}
	died := w.store.revive()
	if died || broken {
		w.happened[how] = true
	}
	cut := died || broken || w.stopped
	if len(w.problems) > 0 {
		w.t.Fatalf("%s", strings.Join(w.problems, "\n"))
	}
	w.acts = append(w.acts, fmt.Sprintf("  gave %d events and the error %v", n, got.err))
	before := len(w.log)
	clear(w.story.awaited) // what was cut off there is over
	w.read(r)
	if errors.As(got.err, new(*agent.MessageSizeError)) {
		w.happened["a message that is too large"] = true
		a.refused, a.silent = []error{agent.ErrBadInput}, true // and nothing is stored
	}
	w.checkError(got.err, a, cut)
	checkLogOf(w.t, r, w.log, w.resumeRoot)
	w.checkGraphs(w.log)
	w.checkFlows(w.log)
	w.checkGuards(w.log)
	w.checkDesk()
	w.checkSteps(w.log)
	w.checkFiles(w.log)
	w.checkMessages(w.log)
	w.checkAsked(w.log, !w.story.unfinished && !w.story.paused)
	w.checkClientTools(w.log)
	w.checkDelivery(&got, a, before, cut)
	w.checkAhead(w.log[before:])
	w.checkCalls()
	w.checkAnswers()
	w.checkRoutes()
	if !died {
		w.checkDecided()
	}
	for _, e := range w.log[before:] {
		require.NotContains(w.t, string(event.EncodeJSON(e.Data)), errStoreDied.Error(), "what the store cannot do is nobody's failure")
	}
	if !cut {
		w.checkCounts(w.log[before:], w.leftOpen(got.err))
		if a.whole && got.err == nil && len(w.story.awaited) > 0 {
			w.t.Fatalf("in agent tools the conversation went to %v, who did not run", w.story.awaited)
		}
	}
	w.checkLive(r)
	w.checkWarm(r)
	w.checkSpans()
	switch {
	case cut:
		w.cuts++
		w.attempt = 2
		if a.adopts && onlyAdopted(w.log[before:]) {
			w.attempt = 1 // an engine need not know more than the log says
		}
		if !a.step { // an engine asks where the log ends when somebody else has gone on with the turn
			w.stepSeq = int64(len(w.log))
		}
	case len(w.log) > before:
		w.attempt = 1 // a refused call leaves the step as it was
	}
	return !cut && got.err == nil
}

// onlyAdopted reports whether events say that the turn was adopted, and no call came since.
func onlyAdopted(events []*event.Event) (taken bool) {
	for _, e := range events {
		d, ok := e.Data.(*event.Notice)
		taken = taken || ok && d.Code == event.NoticeAdopted && e.Scope == ""
	}
	return taken && !slices.ContainsFunc(events, func(e *event.Event) bool { return e.Type() == event.TypeToolCall })
}

// disturb does something while a turn runs.
func (w *world) disturb(r *runner.Runner, how string) {
	ctx := context.Background()
	switch how {
	case "cancel":
		w.interrupt()
	case "server stopped":
		w.cause = session.ErrAbandoned
		w.interrupt()
	case "turn stopped":
		w.cause = session.ErrStopped
		w.interrupt()
	case "busy":
		if info, _, err := session.Find(ctx, w.store, s1); err != nil || !info.Leased {
			return // the last write of the turn gave the lease back
		}
		events, err := collect(w.runner().Resume(ctx, s1))
		require.ErrorIs(w.t, err, agent.ErrSessionBusy)
		require.Empty(w.t, events)
	case "peek":
		must.Get(r.Preview(ctx, s1, w.names[len(w.names)/2]))
		must.Get(r.Active(ctx, s1))
	default:
		return
	}
	w.happen(how)
}

// delivery is what a consumer got.
type delivery struct {
	w      *world
	events []*event.Event // without partial ones
	err    error
	shown  map[string]bool // blocks whose deltas came, until they are stored or discarded
}

// take takes in what comes next, which sessiontest.Turn has looked at.
func (d *delivery) take(e *event.Event, err error) {
	switch {
	case err != nil:
		require.Nil(d.w.t, e)
		d.err = err
	case e.Partial:
		require.True(d.w.t, d.w.streaming && e.Attempt > 0, "a delta that nobody asked for, or without attempt: %v", e)
		d.shown[e.ID] = true
		if text, _ := e.Data.(*event.Text); text != nil && (strings.HasPrefix(e.Agent, "guarded") || e.Scope == "" && d.w.guarded[e.Agent]) {
			require.NotContains(d.w.t, text.Content, "é", "a consumer sees a delta of %s that its guard refuses", e.Agent)
		}
	default:
		d.events = append(d.events, e)
		delete(d.shown, e.ID)
		if discard, ok := e.Data.(*event.Discard); ok {
			for _, id := range discard.IDs {
				delete(d.shown, id)
			}
		}
	}
}

// outsideCodes are those of errors that a remote agent or the node of a graph ends a turn with.
var outsideCodes = []string{"transfer_limit", "transfer_rejected", "limit", "budget", "output_truncated", "internal", "unknown_usage", "tripwire",
	"agent_error", "target_not_ready", "denied", "empty_answer", "repeated_call", "timeout", "routing_error", "graph_failed", "workflow_failed", "content_filter",
	string(a2a.CodeProtocol), string(a2a.CodeTaskFailed), string(a2a.CodeTaskRejected), string(a2a.CodeTaskCanceled), string(a2a.CodeTaskGone),
	string(a2a.CodeUnreachable), string(a2a.CodeNothingToSend), string(a2a.CodeDeclined),
	string(llm.CodeTruncated), string(llm.CodeServer), string(llm.CodeRateLimited), string(llm.CodeContextLength), string(llm.CodeBadRequest)}

// leftOpen reports whether an error is one that leaves the turn open.
func (w *world) leftOpen(err error) bool {
	var re *agent.RunError
	return w.outer && err != nil && llm.Retryable(err) && !errors.As(err, &re)
}

func (w *world) checkError(err error, a act, cut bool) {
	switch {
	case a.left && (errors.Is(err, runner.ErrLeft) || cut):
		w.happened["left alone"] = true
		return
	case a.left:
		w.t.Fatalf("%v should have been ErrLeft", err)
	case w.leftOpen(err):
		w.happened["an error of a model that is not stored"] = true
		return
	}
	if len(a.refused) > 0 && (err != nil || !w.stopped) {
		for _, want := range a.refused {
			if errors.Is(err, want) {
				return
			}
		}
		w.t.Fatalf("%v should have been one of %v", err, a.refused)
	}
	if err == nil || w.stopped && (errors.Is(err, context.Canceled) || errors.Is(err, session.ErrAbandoned) || errors.Is(err, session.ErrStopped)) || cut && errors.Is(err, errStoreDied) {
		return
	}
	if errors.As(err, new(*agent.MessageSizeError)) { // of a fork
		return
	}
	var re *agent.RunError
	require.ErrorAs(w.t, err, &re)
	if t, known := w.traits[re.Agent]; !known || t.outside {
		require.Contains(w.t, outsideCodes, re.Code, "%v", err)
		w.happened["an error of a graph or a remote agent"] = true
		return
	}
	switch re.Code {
	case "transfer_limit":
		require.ErrorIs(w.t, err, agent.ErrTransferLimit)
	case "transfer_rejected":
		require.ErrorIs(w.t, err, agent.ErrTransferRejected)
	case "limit", "budget":
		require.ErrorIs(w.t, err, agent.ErrLimit)
	case "output_truncated":
		require.ErrorIs(w.t, err, agent.ErrOutputTruncated)
	case "empty_answer":
		require.ErrorIs(w.t, err, agent.ErrEmptyAnswer)
	case "repeated_call":
		require.ErrorIs(w.t, err, agent.ErrRepeatedCall)
	case "bad_output":
		require.ErrorAs(w.t, err, new(*llmagent.OutputError))
	case "internal":
		require.True(w.t, w.panics, "%v", err)
	case "unknown_usage": // a budget, where models do not say what they use
		require.False(w.t, w.estimates)
		require.ErrorIs(w.t, err, agent.ErrUnknownUsage)
	case "tripwire":
		require.ErrorIs(w.t, err, errGuard)
	case "target_not_ready":
		require.ErrorIs(w.t, err, agent.ErrTargetNotReady)
	case "agent_error":
		require.True(w.t, errors.Is(err, errCondition) || errors.Is(err, errMeddle) || errors.Is(err, errNobody) || errors.Is(err, router.ErrNobodyLeft), "%v", err)
	default:
		var me *llm.Error
		require.ErrorAs(w.t, err, &me)
		require.Contains(w.t, []llm.ErrorCode{llm.CodeTruncated, llm.CodeServer, llm.CodeRateLimited, llm.CodeContextLength, llm.CodeBadRequest}, me.Code)
	}
	w.happened["error "+re.Code] = true
}
