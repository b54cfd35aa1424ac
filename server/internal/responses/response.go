package responses

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/chats"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/turntext"
	"github.com/agentarbor/arbor/session"
)

// ID names a response: a turn, or the part of one that begins with a decision which a client gave here.
type ID struct {
	Turn    string
	Seq     int64  // of that decision; 0 is the turn's beginning
	Path    string // of the agent that is the model, "" for the root
	Session string
}

func (id ID) String() string { return "resp_" + id.own() + "." + id.Session }

// own is the id without the session.
func (id ID) own() string {
	s := plain(id.Turn)
	if id.Seq > 0 {
		s += "-" + strconv.FormatInt(id.Seq, 10)
	}
	if id.Path != "" {
		s += "~" + strings.ReplaceAll(id.Path, "/", ":")
	}
	return s
}

// ParseID reads what [ID.String] has written.
func ParseID(s string) (id ID, ok bool) {
	s, ok = strings.CutPrefix(s, "resp_")
	own, session, both := strings.Cut(s, ".")
	own, path, _ := strings.Cut(own, "~")
	turn, seq, later := strings.Cut(own, "-")
	id = ID{Path: strings.ReplaceAll(path, ":", "/"), Session: session}
	var err error
	if later {
		id.Seq, err = strconv.ParseInt(seq, 10, 64)
	}
	id.Turn = unplain(turn)
	return id, ok && both && err == nil && id.Turn != "" && id.String() == "resp_"+s
}

// plain writes a turn's id in letters and digits, as it is if it has no others.
func plain(turn string) string {
	if strings.ContainsFunc(turn, func(c rune) bool { return c < '0' || c > 'z' || c > '9' && c < 'A' || c > 'Z' && c < 'a' }) {
		return "$" + hex.EncodeToString([]byte(turn))
	}
	return turn
}

func unplain(s string) string {
	if digits, coded := strings.CutPrefix(s, "$"); coded {
		turn, _ := hex.DecodeString(digits) // what is none is written otherwise
		return string(turn)
	}
	return s
}

// Response is made of the entries of its turn from the turn's beginning, in their order. It is a function of what is
// stored: deltas are shown and change nothing. It is not safe for concurrent use.
type Response struct {
	ID     ID
	Model  string
	First  int64      // the position of the turn's words
	Seq    int64      // the last position that is the response's
	State  live.State // of the turn there
	Over   bool       // another response goes on with the turn
	Began  time.Time  // zero if the turn has no such response
	Input  []*Item    // what the response answers
	Output []*Item
	// Events returns those of the log that are wanted as well, as the client sees them, or nil; nil if none are.
	Events func(*event.Event) *event.Event
	// Send is for a client that reads along; nil if none does. The data is valid until it returns.
	Send func(kind string, data []byte) error

	result  runner.Result
	user    *event.User
	failed  *event.Failure
	asked   []*event.Relay          // and not answered
	relays  map[string]*event.Relay // of the turn, by the ids of their events
	opening bool                    // the next event may belong to what the response answers
	changed time.Time
	reader  turntext.Reader
	rested  bool // before the next entry
	in      bool // the entry is of this response
	kept    []*event.Event

	err    error    // of Send
	last   int64    // the number of what the client was sent before
	cut    *place   // in an item that is yet to come, where the client was cut off
	cutAt  int      // the step of the open item that the client had
	voids  int      // items that were taken back
	open   *Item    // that is being said
	block  string   // the open item's
	at     place    // of the open item
	words  []byte   // of the open item
	sent   int      // how much of them
	around []string // what stands around number and words in a delta of the open item
	frame  []byte
}

// New makes a response of which nothing is known, for a client that has nothing of it.
func New(id ID, model string) *Response {
	return &Response{ID: id, Model: model, last: -1, reader: turntext.Reader{FilesInPlace: true}}
}

// Started reports whether the client has something of the response.
func (r *Response) Started() bool { return r.last >= 0 }

// ErrOver ends a turn's entries for who wants a response that has ended before.
var ErrOver = errors.New("the response is over")

// Resume says what the client has.
func (r *Response) Resume(after int64) {
	r.last = after
	if at := placeOf(after); after > numberEmpty {
		r.voids, r.cut = at.voids, &at
	}
}

// Take takes in an entry that the report knows of. The error is that of a client who has gone, or ErrOver.
func (r *Response) Take(en session.Entry, rep *live.Report) error {
	e := en.Event
	if r.begins(e, rep) {
		if r.in {
			return ErrOver
		}
		r.in = r.ID.Seq == e.Seq || r.ID.Seq == 0 && e.Seq == rep.First
	}
	r.reader.Begin(rep.User)
	said := r.reader.Next(en)
	if d, ok := e.Data.(*event.Relay); ok && !e.Partial {
		if r.relays == nil {
			r.relays = make(map[string]*event.Relay)
		}
		r.relays[e.ID] = d
	}
	if !r.in {
		return nil
	}
	if !e.Partial {
		r.result.Apply(e)
		r.user, r.State, r.failed, r.changed, r.Seq = rep.User, rep.State, rep.Failure, e.Time, e.Seq
		r.asked = rep.Pending
		_, decision := e.Data.(*event.RelayResolved)
		if r.opening = r.Began.IsZero() || r.opening && decision; r.opening {
			r.begun(e)
		}
		if r.Began.IsZero() {
			r.Began, r.State = e.Time, live.Running
			r.tellNumber(numberCreated, &Event{Type: "response.created", Response: r.Object()})
			r.tellNumber(numberInProgress, &Event{Type: "response.in_progress", Response: r.Object()})
		}
	}
	if r.Events != nil {
		if shown := r.Events(e); shown != nil && r.Send != nil {
			r.event(r.last, &Event{Type: "arbor.event", Event: shown})
		} else if shown != nil && !e.Partial {
			r.kept = append(r.kept, shown)
		}
	}
	for _, p := range said {
		r.piece(p)
	}
	if d, ok := e.Data.(*event.Relay); ok && !e.Partial {
		r.asks(e, d)
	}
	if r.rested && r.cut != nil && r.cut.step == stepOver && len(r.Output) >= r.cut.item() {
		r.cut = nil // what comes now is new
	}
	return r.err
}

// begins reports whether a response begins with the next event of the turn: with the user's words, or with a decision
// that a client of this door gave. Those that are given elsewhere are part of the response that asked.
func (r *Response) begins(e *event.Event, rep *live.Report) bool {
	if e.Partial {
		return false
	}
	_, decision := e.Data.(*event.RelayResolved)
	begins := e.Seq == rep.First || decision && r.rested && strings.HasPrefix(e.ID, chats.DecisionPrefix)
	r.rested = rep.State != live.Running && !decision // what goes on comes in the same write
	return begins
}

// piece takes in what is said. One block at a time is shown word by word; what is stored meanwhile comes before it
// in the log, so that the words of the block are taken back and come again when they are whole.
func (r *Response) piece(p turntext.Piece) {
	switch mine := r.open != nil && r.block == p.Block; {
	case p.Kind == turntext.Opened && r.open == nil && r.Send != nil && r.voids < maxVoids && r.goesOn(p.Block):
		r.begin(p)
	case p.Kind == turntext.Appended && mine:
		r.words = append(r.words, p.Text...)
		r.tell(false)
	case p.Kind == turntext.Voided && mine:
		r.void()
	case p.Kind == turntext.Voided && r.cut != nil && r.cut.step == stepVoid && r.cut.within(p.Block, len(r.Output)):
		r.cut = nil // what comes now is new
	case p.Kind == turntext.Closed:
		r.whole(p)
	}
}

// add begins an item.
func (r *Response) add(block string, item *Item) {
	r.pass(block)
	r.open, r.block = item, block
	r.at = place{slot: len(r.Output) + r.voids, voids: r.voids, print: printOf(block)}
	if item.ID == "" {
		item.ID = r.messageID(len(r.Output), r.at.print)
	}
	r.tellAt(stepAdded, &Event{Type: "response.output_item.added", Item: item})
}

func (r *Response) begin(p turntext.Piece) {
	r.add(p.Block, &Item{Type: "message", Status: "in_progress", Role: "assistant", Content: &[]Text{}, Agent: p.Agent})
	r.words, r.sent, r.around = r.words[:0], 0, nil
	r.tellAt(stepPart, &Event{Type: "response.content_part.added", ItemID: r.open.ID, Part: textOf("")})
}

// whole ends a block, which may not have been shown.
func (r *Response) whole(p turntext.Piece) {
	if r.block != p.Block {
		r.void()
	}
	if r.open == nil {
		r.begin(p)
	}
	r.words = append(r.words[:0], p.Text...)
	r.tell(true)
	all := textOf(p.Text)
	r.tellAt(stepTextDone, &Event{Type: "response.output_text.done", ItemID: r.open.ID, Text: &all.Text, LogProbs: all.LogProbs})
	r.tellAt(stepPartDone, &Event{Type: "response.content_part.done", ItemID: r.open.ID, Part: all})
	r.open.Status, r.open.Content = "completed", &[]Text{*all}
	r.done()
}

// done completes the open item.
func (r *Response) done() {
	item := r.open
	r.Output, r.open = append(r.Output, item), nil
	r.tellAt(stepItemDone, &Event{Type: "response.output_item.done", Item: item})
}

// void takes the open item back, if there is one.
func (r *Response) void() {
	if r.open != nil {
		r.voided(r.at, r.open)
	}
}

func (r *Response) voided(at place, item *Item) {
	item.Status, item.Content = "incomplete", &[]Text{}
	at.voids++
	r.at, r.open, r.voids = at, nil, at.voids
	r.tellAt(stepVoid, &Event{Type: "response.output_item.done", Item: item})
}

// asks is a question about a call.
func (r *Response) asks(e *event.Event, d *event.Relay) {
	if call := front.AsCall(r.user, d); call.Client {
		r.calls(e, call)
		return
	}
	if d.Kind == event.RelayInput { // the protocol has no item for it
		r.whole(turntext.Piece{Block: e.ID, Agent: e.Agent, Text: live.Question(d) + "Answer with your next message."})
		return
	}
	r.void()
	arguments := string(d.Params)
	r.add(e.ID, &Item{Type: "mcp_approval_request", ID: r.itemID(approvalPrefix + d.ToolCallID), ServerLabel: "arbor", Name: d.Tool, Arguments: &arguments, Agent: e.Agent})
	r.done()
}

// calls adds the item of a call that the client runs.
func (r *Response) calls(e *event.Event, d *event.Relay) {
	r.void()
	none, arguments := "", string(d.Params)
	item := &Item{Type: "function_call", ID: r.itemID("fc_" + d.ToolCallID), Status: "in_progress", CallID: d.ToolCallID, Name: d.Tool, Arguments: &none, Agent: e.Agent}
	r.add(e.ID, item)
	r.tellAt(stepPart, &Event{Type: "response.function_call_arguments.delta", ItemID: item.ID, Delta: &arguments})
	r.tellAt(stepTextDone, &Event{Type: "response.function_call_arguments.done", ItemID: item.ID, Name: d.Tool, Arguments: &arguments})
	item.Status, item.Arguments = "completed", &arguments
	r.done()
}

// goesOn reports whether a block that is not whole may be shown. Until the place where the client was cut off, blocks
// come again that the client has seen, and seen taken back.
func (r *Response) goesOn(block string) bool {
	return r.cut == nil || r.cut.step < stepRest && r.cut.within(block, len(r.Output))
}

// pass finds out, with the block of the next item, what has become of the item in which the client was cut off.
func (r *Response) pass(block string) {
	at := r.cut
	if r.cutAt = 0; at == nil || len(r.Output) < at.item() {
		return
	}
	switch r.cut = nil; {
	case at.step >= stepVoid:
	case block != "" && printOf(block) == at.print:
		r.cutAt = at.step
	default:
		r.voided(*at, &Item{Type: "message", ID: r.messageID(at.item(), at.print), Role: "assistant"})
	}
}

func (r *Response) messageID(i, print int) string {
	return r.itemID(fmt.Sprintf("msg_%d_%x", i, print))
}

// tell sends the words that the client does not have. What the deltas of an item have in common is written once.
func (r *Response) tell(whole bool) {
	n, step := tell(r.words, whole)
	from := max(r.sent, known(r.words, r.cutAt))
	if n <= from || r.Send == nil {
		return
	}
	r.sent, r.at.step = n, step
	if r.at.number() <= r.last || r.err != nil {
		return
	}
	if r.around == nil {
		hole := "\x00"
		text := string(event.EncodeJSON(&Event{Type: deltaEvent, OutputIndex: &r.at.slot, ItemID: r.open.ID, ContentIndex: new(int), Delta: &hole, LogProbs: []struct{}{}}))
		head, rest, _ := strings.Cut(text, "0,") // the number
		middle, tail, _ := strings.Cut(rest, `"\u0000"`)
		r.around = []string{head, "," + middle, tail}
	}
	r.last = r.at.number()
	r.frame = append(strconv.AppendInt(append(r.frame[:0], r.around[0]...), r.last, 10), r.around[1]...)
	r.frame = append(append(r.frame, event.EncodeJSON(string(r.words[from:n]))...), r.around[2]...)
	r.err = r.Send(deltaEvent, r.frame)
}

// tellAt sends an event of the item at which the response is, unless the client has it.
func (r *Response) tellAt(step int, ev *Event) {
	r.at.step = step
	ev.OutputIndex = &r.at.slot
	if ev.Item == nil && r.open.Content != nil {
		ev.ContentIndex = new(int)
	}
	r.tellNumber(r.at.number(), ev)
}

// tellNumber sends an event, unless the client has it.
func (r *Response) tellNumber(n int64, ev *Event) {
	if r.Send != nil && n > r.last {
		r.last = n
		r.event(n, ev)
	}
}

// Fail ends the stream for a reason that is none of the turn's.
func (r *Response) Fail(code, message string) {
	null := json.RawMessage("null")
	r.event(max(r.last, 0), &Event{Type: "error", Code: code, Message: message, Param: &null})
}

func (r *Response) event(n int64, ev *Event) {
	if ev.Number = n; r.err == nil {
		r.err = r.Send(ev.Type, event.EncodeJSON(ev))
	}
}

// End closes the stream of a response that rests.
func (r *Response) End() error {
	r.void()
	r.pass("")
	number := int64(numberEmpty)
	if slot := len(r.Output) + r.voids - 1; slot >= 0 {
		number = place{slot: slot, step: stepOver, voids: r.voids}.number()
	}
	resp := r.Object()
	r.tellNumber(number, &Event{Type: "response." + resp.Status, Response: resp})
	return r.err
}

// Texts are what its messages say.
func (r *Response) Texts() (all []string) {
	for _, item := range r.Output {
		if item.Content != nil {
			all = append(all, (*item.Content)[0].Text)
		}
	}
	return all
}

// NoOutput is the code of the failure of a response, or a chat, whose turn ended without an answer of the form that
// the client wants, and NoOutputMessage says so.
const (
	NoOutput        = "no_output"
	NoOutputMessage = "the agent that answered has no answer of the form that was asked for: its answers are words, or have a form of their own"
)

// status is that of the response, and why it is not a whole answer.
func (r *Response) status() (status, incomplete string) {
	switch r.State {
	case live.CutOff:
		return "incomplete", "stopped"
	case live.Waiting:
		return "completed", ""
	case live.Canceled:
		return "cancelled", ""
	case live.Failed:
		if r.result.FinishReason == event.FinishReasonLimit {
			return "incomplete", "limit"
		}
		return "failed", ""
	case live.Done:
		switch r.result.FinishReason {
		case event.FinishReasonLength:
			return "incomplete", "max_output_tokens"
		case event.FinishReasonContentFilter:
			return "incomplete", "content_filter"
		}
		if turntext.WantedBy(r.user) != nil && r.Texts() == nil {
			return "failed", ""
		}
		return "completed", ""
	}
	return "in_progress", ""
}

// About is what of a request is kept with its words, besides what it says.
type About struct {
	Dropped    bool   `json:"dropped,omitempty"` // with store: false, nobody gets it again
	Background bool   `json:"background,omitempty"`
	Previous   string `json:"previous,omitempty"`
}

// AboutKey is where the metadata of words have it.
const AboutKey = "arbor.response"

func (r *Response) About() (a About) {
	if r.user != nil {
		_ = json.Unmarshal(event.EncodeJSON(r.user.Metadata[AboutKey]), &a) // what another door has stored has none
	}
	if r.ID.Seq > 0 {
		a.Previous, a.Background = "", false // of the words, not of the decision
	}
	return a
}

// Object is what the response has come to.
func (r *Response) Object() *Object {
	status, incomplete := r.status()
	about := r.About()
	w := &Object{ID: r.ID.String(), Object: "response", CreatedAt: r.Began.Unix(), Status: status, Background: about.Background, Model: r.Model,
		Output: r.Output, ParallelToolCalls: true, Store: !about.Dropped, ToolChoice: "auto", Tools: []struct{}{}, Metadata: map[string]string{},
		Arbor: Arbor{Session: r.ID.Session, Turn: r.ID.Turn, Agent: r.result.Agent, State: r.State, Pending: PendingOf(r.asked), Events: r.kept}}
	w.Conversation.ID = r.ID.Session
	if w.Output == nil {
		w.Output = []*Item{}
	}
	if about.Previous != "" {
		w.Previous = &about.Previous
	}
	if r.user != nil {
		for name, value := range r.user.Metadata {
			if s, ok := value.(string); ok && !live.Reserved(name) {
				w.Metadata[name] = s
			}
		}
	}
	if status == "in_progress" {
		return w
	}
	u := r.result.Usage
	w.Usage = &Usage{Input: u.InputTokens, Output: u.OutputTokens, Total: u.InputTokens + u.OutputTokens}
	w.Usage.InputDetails.Cached = u.CachedTokens
	if incomplete != "" {
		w.Incomplete = &Reason{incomplete}
	}
	if status == "completed" {
		at := r.changed.Unix()
		w.CompletedAt = &at
	}
	if status == "failed" {
		w.Error = &Failure{Type: "server_error", Code: "server_error", Message: "the turn ended without an answer"}
		if r.State == live.Done {
			w.Error.Code, w.Error.Message = NoOutput, NoOutputMessage
		}
		if r.failed != nil {
			w.Error.Code, w.Error.Message = r.failed.Code, r.failed.Public().Message
		}
		if w.Error.Code == string(llm.CodeRateLimited) {
			w.Error.Type = "rate_limit_error"
		}
	}
	return w
}
