package runner_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/runner"
)

var (
	forPerson   = rapid.SampledFrom([]string{"a person wanted", "a person wanted", "run", "a word of the desk"})
	withPerson  = rapid.SampledFrom([]string{"a word of the desk", "a word of the desk", "a word of the desk", "a word of the desk", "a word of the desk", "run", "run", "resume", "a person wanted", "the turn given up"})
	deskAnswers = rapid.SliceOfN(rapid.SampledFrom([]string{"", "", "", "", "", "", "connected", "ringing", "failed", "lost", "down", "unavailable", "gone", "stop"}), 1, 20)
	someStatus  = rapid.SampledFrom([]human.Status{"", "", "", human.Queued, human.Connecting, human.Ringing, human.Connected, human.Connected, human.Connected, human.OnHold,
		human.Completed, human.Completed, human.Ended, human.Cancelled, human.Failed, human.Requested})
	errDesk = errors.New("no way to the desk")
)

// propertyDesk answers as a script says, and notes what it got.
type propertyDesk struct {
	w       *world
	answers []string

	mu   sync.Mutex
	at   int
	legs map[human.Leg]*deskLeg
}

// deskLeg is what a desk knows of a handoff.
type deskLeg struct {
	asked int
	said  []string        // the ids of the user's messages, as they came first
	known map[string]bool // these
	taken map[string]int  // those of which it has said so, by how often the process had been cut off then
}

// newDesk makes a desk, in most cases nil.
func (w *world) newDesk() *propertyDesk {
	if oneInTen.Draw(w.rt, "with a desk") < 6 {
		return nil
	}
	w.happened["a desk"] = true
	return &propertyDesk{w: w, answers: deskAnswers.Draw(w.rt, "desk"), legs: make(map[human.Leg]*deskLeg)}
}

// next is how the desk answers, and whether it takes in what it is told.
func (d *propertyDesk) next() (how string, hears bool) {
	if d.at < len(d.answers) {
		how = d.answers[d.at]
		d.at++
	}
	return how, !slices.Contains([]string{"down", "unavailable", "gone"}, how)
}

// answer is the error of an answer.
func (d *propertyDesk) answer(ctx context.Context, how string) error {
	if how != "" {
		d.w.happen("a desk that is " + how)
	}
	switch how {
	case "lost", "down":
		return errDesk
	case "unavailable":
		return human.ErrUnavailable
	case "gone":
		return human.ErrGone
	case "stop": // the process dies
		d.w.interrupt()
		return ctx.Err()
	}
	return nil
}

func (d *propertyDesk) hear(leg human.Leg, messages []human.Message) {
	l := d.legs[leg]
	if l == nil {
		l = &deskLeg{known: make(map[string]bool), taken: make(map[string]int)}
		d.legs[leg] = l
	}
	for _, m := range messages {
		if m.Author == "user" && !l.known[m.ID] {
			l.said, l.known[m.ID] = append(l.said, m.ID), true
		}
	}
}

// RequestTransfer implements human.Desk.
func (d *propertyDesk) RequestTransfer(ctx context.Context, r human.Request) (human.Update, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	how, hears := d.next()
	if hears {
		d.hear(r.Leg, r.Conversation)
		if l := d.legs[r.Leg]; l.asked > 0 {
			d.w.happen("a desk asked again")
		}
		d.legs[r.Leg].asked++
	}
	if err := d.answer(ctx, how); err != nil {
		return human.Update{}, err
	}
	return human.Update{Status: map[string]human.Status{"connected": human.Connected, "ringing": human.Ringing, "failed": human.Failed}[how]}, nil
}

// Send implements human.Desk.
func (d *propertyDesk) Send(ctx context.Context, leg human.Leg, messages []human.Message) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.legs[leg] == nil {
		d.w.problem("the desk is sent words of %v, of which it was not asked", leg)
	}
	how, hears := d.next()
	if hears {
		d.hear(leg, messages)
	}
	err := d.answer(ctx, how)
	for _, m := range messages {
		l := d.legs[leg]
		if cuts, taken := l.taken[m.ID]; taken && cuts == d.w.cuts {
			d.w.problem("the desk is sent %s again, which it has taken", m.ID)
		}
		if err == nil {
			l.taken[m.ID] = d.w.cuts
		}
	}
	return err
}

// Cancel implements human.Desk.
func (d *propertyDesk) Cancel(ctx context.Context, _ human.Leg, _ string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	how, _ := d.next()
	return d.answer(ctx, how)
}

// handoff is what the log says of a handoff.
type handoff struct {
	id    string
	seq   int64 // of the request
	upTo  int64
	ctl   human.Controller
	heard map[string]bool
}

// checkHandoff holds the next event of the log against the table of states.
func (w *world) checkHandoff(e *event.Event) {
	switch d := e.Data.(type) {
	case *event.Transfer:
		if e.RunID == w.story.owes {
			require.Equal(w.t, event.TransferTypeHumanToBot, d.TransferType, "seq %d", e.Seq)
			w.story.owes = ""
		}
	case *event.HarnessEnd:
		require.NotEqual(w.t, w.story.owes, e.RunID, "seq %d: nobody goes on after a handoff that failed", e.Seq)
	}
	d, ok := e.Data.(*event.HandoffStatus)
	if !ok {
		return
	}
	var h *handoff
	if n := len(w.story.handoffs); n > 0 {
		h = w.story.handoffs[n-1]
	}
	status := human.Status(d.Status)
	// Nobody was there: an agent continues in the same turn, if it can start.
	if status == human.Failed && d.DeskEventID == "" && !w.away[d.TargetAgent] {
		w.story.owes = e.RunID
	}
	if h == nil || h.id != d.HandoffID {
		require.Equal(w.t, human.Requested, status, "seq %d: a handoff does not begin with its request", e.Seq)
		require.True(w.t, h == nil || h.ctl.Status().Final(), "seq %d: a handoff begins before the last one is over", e.Seq)
		for _, before := range w.story.handoffs {
			require.NotEqual(w.t, d.HandoffID, before.id, "seq %d: the id is taken", e.Seq)
		}
		h = &handoff{id: d.HandoffID, seq: e.Seq, heard: make(map[string]bool)}
		w.story.handoffs = append(w.story.handoffs, h)
		require.NoError(w.t, h.ctl.Apply(human.Step{Status: status}))
		return
	}
	if status != h.ctl.Status() {
		require.NoError(w.t, h.ctl.Apply(human.Step{Status: status}), "seq %d", e.Seq)
	}
	require.False(w.t, h.ctl.Status().Final() && status != h.ctl.Status(), "seq %d", e.Seq)
	require.GreaterOrEqual(w.t, d.UpTo, h.upTo, "seq %d: the desk has less than it had", e.Seq)
	require.Less(w.t, d.UpTo, e.Seq, "seq %d: the desk has what comes later", e.Seq)
	if h.upTo = d.UpTo; d.DeskEventID != "" {
		require.False(w.t, h.heard[d.DeskEventID], "seq %d: a word of the desk is taken in twice", e.Seq)
		h.heard[d.DeskEventID] = true
	}
}

// checkDesk holds what the desk has got against the log: each handoff was asked for once,
// by its id, and what the user has said came in order, once, as far as the log says at least.
func (w *world) checkDesk() {
	if w.desk == nil {
		return
	}
	w.desk.mu.Lock()
	defer w.desk.mu.Unlock()
	legs := make(map[string]bool)
	for _, h := range w.story.handoffs {
		legs[h.id] = true
		got := w.desk.legs[human.Leg{ID: h.id, Session: s1}]
		if got == nil {
			require.Zero(w.t, h.upTo, "the desk has heard nothing of the handoff %s", h.id)
			continue
		}
		require.LessOrEqual(w.t, got.asked, 1+w.cuts+1, "the desk was asked too often for the handoff %s", h.id)
		said := 0
		for _, e := range w.log {
			if _, ok := e.Data.(*event.User); !ok {
				continue
			}
			if said == len(got.said) {
				require.Greater(w.t, e.Seq, h.upTo, "the desk has not got what the user said at %d", e.Seq)
				break
			}
			require.Equal(w.t, e.ID, got.said[said], "seq %d: the desk has got something else", e.Seq)
			said++
		}
		require.Len(w.t, got.said, said)
	}
	for leg := range w.desk.legs {
		require.True(w.t, leg.Session != s1 || legs[leg.ID], "the desk was asked for the handoff %s, which is not in the log", leg.ID)
	}
	if w.story.active != agent.Human || len(w.log) == 0 {
		return
	}
	end := w.log[len(w.log)-1] // the user waits: somebody must have been asked
	if d, ok := end.Data.(*event.HarnessEnd); ok && end.Agent == agent.Human && d.FinishReason == event.FinishReasonStop {
		last := w.story.handoffs[len(w.story.handoffs)-1]
		require.False(w.t, last.ctl.Status().Final(), "the user waits for a person of a handoff that is over")
		require.False(w.t, last.ctl.Status() == human.Requested && len(last.heard) == 0, "the run of a person is over, and the desk was not asked")
	}
}

// deliver says something from the desk.
func (w *world) deliver(r *runner.Runner) {
	word := human.Event{ID: fmt.Sprint("e", len(w.words)), HandoffID: "nothing",
		Update: human.Update{Status: someStatus.Draw(w.rt, "status"), TargetAgent: rapid.SampledFrom([]string{"", "Ann", "a0", "a1"}).Draw(w.rt, "target")}}
	if oneInFour.Draw(w.rt, "text") > 0 {
		word.Text = fmt.Sprintf("Word %d.", len(w.words))
	}
	if oneInTen.Draw(w.rt, "position") == 9 {
		word.QueuePosition = new(3)
	}
	handoffs := w.story.handoffs
	var h *handoff
	if n := len(handoffs); n > 0 && oneInTen.Draw(w.rt, "another handoff") < 9 {
		h = handoffs[n-1]
	} else if n > 1 {
		h = handoffs[n-2]
	}
	if h != nil && w.desk.legs[human.Leg{ID: h.id, Session: s1}] != nil { // else it does not know of it
		word.HandoffID = h.id
	}
	if len(w.words) > 0 && oneInFour.Draw(w.rt, "again") == 3 {
		word = w.words[len(w.words)-1]
	}
	w.words = append(w.words, word)
	w.acts = append(w.acts, fmt.Sprintf("  %+v", word))
	a := act{silent: true, start: func(ctx context.Context) iter.Seq2[*event.Event, error] { return whole(nil, r.Deliver(ctx, s1, word)) }}
	known := false
	switch last := len(handoffs) - 1; {
	case word.Validate() != nil:
		a.refused = []error{agent.ErrBadInput}
	case last < 0 || handoffs[last].id != word.HandoffID:
		a.refused = []error{human.ErrGone}
	case handoffs[last].heard[word.ID]:
		known = true
		w.happened["a word of the desk that comes again"] = true
	case handoffs[last].ctl.Status().Final():
		a.refused = []error{human.ErrGone}
	case word.Status != "" && word.Status != handoffs[last].ctl.Status() && handoffs[last].ctl.Way(word.Status) == nil:
		a.refused = []error{human.ErrTransition}
	}
	before := len(w.log)
	if !w.act(r, a) || len(a.refused) > 0 {
		return
	}
	if known {
		require.Len(w.t, w.log, before, "a word that comes again is stored again")
		return
	}
	h = handoffs[len(handoffs)-1]
	require.True(w.t, h.heard[word.ID], "the word %s was not taken in", word.ID)
	require.True(w.t, word.Status == "" || h.ctl.Status() == word.Status, "the handoff is %s, and was to be %s", h.ctl.Status(), word.Status)
	w.happened["a word of the desk taken in"] = true
	said := 0
	for _, e := range w.log[before:] {
		if e.Agent == agent.Human && word.Text != "" && strings.TrimSpace(e.Text()) == word.Text {
			said++
		}
	}
	require.Equal(w.t, word.Text != "", said == 1, "%q is said %d times", word.Text, said)
}
