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
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/chats"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/turntext"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// ID identifies a response: a turn, or the part of a turn that starts with a decision through this API.
type ID struct {
	Turn    string
	Seq     int64  // the position of the decision; 0 is the start of the turn
	Path    string // the path of the agent that the request names as model; "" for the root
	Session string
}

func (id ID) String() string { return "resp_" + id.own() + "." + id.Session }

// own returns the id without the session.
func (id ID) own() string {
	s := encodeTurn(id.Turn)
	if id.Seq > 0 {
		s += "-" + strconv.FormatInt(id.Seq, 10)
	}
	if id.Path != "" {
		s += "~" + strings.ReplaceAll(id.Path, "/", ":")
	}
	return s
}

// ParseID parses the text of [ID.String].
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
	id.Turn = decodeTurn(turn)
	return id, ok && both && err == nil && id.Turn != "" && id.String() == "resp_"+s
}

// encodeTurn encodes the id of a turn in letters and digits. It returns an id that has no other characters unchanged.
func encodeTurn(turn string) string {
	if strings.ContainsFunc(turn, func(c rune) bool { return c < '0' || c > 'z' || c > '9' && c < 'A' || c > 'Z' && c < 'a' }) {
		return "$" + hex.EncodeToString([]byte(turn))
	}
	return turn
}

func decodeTurn(s string) string {
	if digits, coded := strings.CutPrefix(s, "$"); coded {
		turn, _ := hex.DecodeString(digits) // ParseID detects invalid digits by encoding again
		return string(turn)
	}
	return s
}

// Response is the state of a response. Apply all entries of its turn in order, from the start of the turn. The stored
// events alone determine the state; deltas are only sent to the client. It is not safe for concurrent use.
type Response struct {
	ID     ID
	Model  string
	First  int64      // the position of the message that started the turn
	Seq    int64      // the position of the response's last event
	State  live.State // of the turn at Seq
	Over   bool       // another response continues the turn
	Began  time.Time  // zero before the response's first event
	Input  []*Item    // what the response answers
	Output []*Item
	// Events returns an event of the log as the client may see it, or nil. If Events is nil, the response contains no
	// events of the log.
	Events func(*event.Event) *event.Event
	// Send sends an event of the stream; nil without a stream. The data is valid until it returns.
	Send func(kind string, data []byte) error

	result  runner.Result
	user    *event.User
	failed  *event.Failure
	pending []*event.Relay      // open questions
	relays  map[string]question // the questions of the turn by the ids of their events
	part    int64               // the ID.Seq of the response to which the entry belongs
	opening bool                // the next event may belong to the input
	changed time.Time
	reader  turntext.Reader
	paused  bool // the turn had ended or paused before the next entry
	in      bool // the entry belongs to this response
	kept    []*event.Event

	err     error  // of Send
	last    int64  // the sequence number of the last event that the client received; -1: none
	cut     *place // the place in a later item at which the client was disconnected
	cutAt   int    // the last step of the open item that the client received
	voids   int    // the number of items that were taken back
	open    *Item  // the item whose text is incomplete
	block   string // the id of the open item's block
	content int    // the index of the only content of an item, 0
	at      place  // of the open item
	text    []byte // of the open item
	sent    int    // the number of bytes of text that were sent
}

// New returns a response without events, for a client that has received none.
func New(id ID, model string) *Response {
	return &Response{ID: id, Model: model, last: -1, reader: turntext.Reader{FilesInPlace: true}}
}

// Started reports whether the client has received an event of the response.
func (r *Response) Started() bool { return r.last >= 0 }

// ErrOver reports an entry that belongs to the next response of the turn.
var ErrOver = errors.New("the response is over")

// Resume continues the stream after the event with a sequence number, which the client has received.
func (r *Response) Resume(after int64) {
	r.last = after
	if at := placeOf(after); after > numberEmpty {
		r.voids, r.cut = at.voids, &at
	}
}

// Apply applies an entry. rep is the report of the events up to the entry. The error is that of Send, or ErrOver.
func (r *Response) Apply(en session.Entry, rep *live.Report) error {
	e := en.Event
	if r.begins(e, rep) {
		if r.in {
			return ErrOver
		}
		if e.Seq > rep.First {
			r.part = e.Seq
		}
		r.in = r.ID.Seq == r.part
	}
	r.reader.Begin(rep.User)
	pieces := r.reader.Next(en)
	if d, ok := e.Data.(*event.Relay); ok && !e.Partial {
		if r.relays == nil {
			r.relays = make(map[string]question)
		}
		of := r.ID
		of.Seq = r.part
		r.relays[e.ID] = question{d, of.item(approvalPrefix + d.ToolCallID + ":" + e.ID)}
	}
	if !r.in {
		return nil
	}
	if !e.Partial {
		r.result.Apply(e)
		r.user, r.State, r.failed, r.changed, r.Seq = rep.User, rep.State, rep.Failure, e.Time, e.Seq
		r.pending = rep.Pending
		_, decision := e.Data.(*event.RelayResolved)
		if r.opening = r.Began.IsZero() || r.opening && decision; r.opening {
			r.addInput(e)
		}
		if r.Began.IsZero() {
			r.Began, r.State = e.Time, live.Running
			r.sendNumbered(numberCreated, &Event{Type: "response.created", Response: r.Object()})
			r.sendNumbered(numberInProgress, &Event{Type: "response.in_progress", Response: r.Object()})
		}
	}
	if r.Events != nil {
		if shown := r.Events(e); shown != nil && r.Send != nil {
			r.event(r.last, &Event{Type: "arbor.event", Event: shown})
		} else if shown != nil && !e.Partial {
			r.kept = append(r.kept, shown)
		}
	}
	for _, p := range pieces {
		r.addPiece(p)
	}
	if d, ok := e.Data.(*event.Relay); ok && !e.Partial {
		r.addQuestion(e, d)
	}
	if r.paused && r.cut != nil && r.cut.step == stepOver && len(r.Output) >= r.cut.item() {
		r.cut = nil // the client has received none of the following events
	}
	return r.err
}

// begins reports whether a response starts with the next event of the turn: with the user's message, or with a decision
// through this API. Decisions through other APIs belong to the response that asked.
func (r *Response) begins(e *event.Event, rep *live.Report) bool {
	if e.Partial {
		return false
	}
	_, decision := e.Data.(*event.RelayResolved)
	begins := e.Seq == rep.First || decision && r.paused && strings.HasPrefix(e.ID, chats.DecisionPrefix)
	r.paused = rep.State != live.Running && !decision // the turn continues in the same write
	return begins
}

// addPiece applies a piece of text. Only one block at a time is streamed. An item that is stored meanwhile precedes it
// in the log, so the streamed item is taken back, and sent again when it is complete.
func (r *Response) addPiece(p turntext.Piece) {
	switch mine := r.open != nil && r.block == p.Block; {
	case p.Kind == turntext.Opened && r.open == nil && r.Send != nil && r.voids < maxVoids && r.mayShow(p.Block):
		r.openMessage(p)
	case p.Kind == turntext.Appended && mine:
		r.text = append(r.text, p.Text...)
		r.sendDelta(false)
	case p.Kind == turntext.Voided && mine:
		r.void()
	case p.Kind == turntext.Voided && r.cut != nil && r.cut.step == stepVoid && r.cut.within(p.Block, len(r.Output)):
		r.cut = nil // the client has received none of the following events
	case p.Kind == turntext.Closed:
		r.addMessage(p)
	}
}

// add opens an item.
func (r *Response) add(block string, item *Item) {
	r.resolveCut(block)
	r.open, r.block = item, block
	r.at = place{slot: len(r.Output) + r.voids, voids: r.voids, hash: hashOf(block)}
	if item.ID == "" {
		item.ID = r.messageID(len(r.Output), r.at.hash)
	}
	r.sendItemEvent(stepAdded, &Event{Type: "response.output_item.added", Item: item})
}

func (r *Response) openMessage(p turntext.Piece) {
	r.add(p.Block, &Item{Type: "message", Status: "in_progress", Role: "assistant", Content: &[]Text{}, Agent: p.Agent})
	r.text, r.sent = r.text[:0], 0
	r.sendItemEvent(stepPart, &Event{Type: "response.content_part.added", ItemID: r.open.ID, Part: textOf("")})
}

// addMessage adds a complete block, which may have been streamed.
func (r *Response) addMessage(p turntext.Piece) {
	if r.block != p.Block {
		r.void()
	}
	if r.open == nil {
		r.openMessage(p)
	}
	r.text = append(r.text[:0], p.Text...)
	r.sendDelta(true)
	all := textOf(p.Text)
	r.sendItemEvent(stepTextDone, &Event{Type: "response.output_text.done", ItemID: r.open.ID, Text: &all.Text, LogProbs: all.LogProbs})
	r.sendItemEvent(stepPartDone, &Event{Type: "response.content_part.done", ItemID: r.open.ID, Part: all})
	r.open.Status, r.open.Content = "completed", &[]Text{*all}
	r.closeItem()
}

// closeItem completes the open item.
func (r *Response) closeItem() {
	item := r.open
	r.Output, r.open = append(r.Output, item), nil
	r.sendItemEvent(stepItemDone, &Event{Type: "response.output_item.done", Item: item})
}

// void takes back the open item, if there is one.
func (r *Response) void() {
	if r.open != nil {
		r.voided(r.at, r.open)
	}
}

func (r *Response) voided(at place, item *Item) {
	item.Status, item.Content = "incomplete", &[]Text{}
	at.voids++
	r.at, r.open, r.voids = at, nil, at.voids
	r.sendItemEvent(stepVoid, &Event{Type: "response.output_item.done", Item: item})
}

// addQuestion adds the item of a question.
func (r *Response) addQuestion(e *event.Event, d *event.Relay) {
	if call := front.AsCall(r.user, e.ID, d); call.Client {
		r.addCall(e, call)
		return
	}
	if d.Kind == event.RelayInput { // the protocol has no item for a question
		r.addMessage(turntext.Piece{Block: e.ID, Agent: e.Agent, Text: front.Question(d)})
		return
	}
	r.void()
	arguments := string(d.Params)
	r.add(e.ID, &Item{Type: "mcp_approval_request", ID: r.relays[e.ID].item, ServerLabel: "arbor", Name: d.Tool, Arguments: &arguments, Agent: e.Agent})
	r.closeItem()
}

// addCall adds the item of a call that the client runs.
func (r *Response) addCall(e *event.Event, d *event.Relay) {
	r.void()
	none, arguments := "", string(d.Params)
	item := &Item{Type: "function_call", ID: r.ID.item("fc_" + d.ToolCallID), Status: "in_progress", CallID: d.ToolCallID, Name: d.Tool, Arguments: &none, Agent: e.Agent}
	r.add(e.ID, item)
	r.sendItemEvent(stepPart, &Event{Type: "response.function_call_arguments.delta", ItemID: item.ID, Delta: &arguments})
	r.sendItemEvent(stepTextDone, &Event{Type: "response.function_call_arguments.done", ItemID: item.ID, Name: d.Tool, Arguments: &arguments})
	item.Status, item.Arguments = "completed", &arguments
	r.closeItem()
}

// mayShow reports whether an incomplete block may be streamed. Up to the place at which the client was disconnected,
// blocks come again that the client has received, or received and taken back.
func (r *Response) mayShow(block string) bool {
	return r.cut == nil || r.cut.step < stepRest && r.cut.within(block, len(r.Output))
}

// resolveCut decides, from the block of the next item, what became of the item in which the client was disconnected.
func (r *Response) resolveCut(block string) {
	at := r.cut
	if r.cutAt = 0; at == nil || len(r.Output) < at.item() {
		return
	}
	switch r.cut = nil; {
	case at.step >= stepVoid:
	case block != "" && hashOf(block) == at.hash:
		r.cutAt = at.step
	default:
		r.voided(*at, &Item{Type: "message", ID: r.messageID(at.item(), at.hash), Role: "assistant"})
	}
}

func (r *Response) messageID(i, hash int) string {
	return r.ID.item(fmt.Sprintf("msg_%d_%x", i, hash))
}

// sendDelta sends the text that the client has not received.
func (r *Response) sendDelta(whole bool) {
	n, step := sendable(r.text, whole)
	from := max(r.sent, received(r.text, r.cutAt))
	if n <= from || r.Send == nil {
		return
	}
	r.sent = n
	delta := string(r.text[from:n])
	r.sendItemEvent(step, &Event{Type: "response.output_text.delta", ItemID: r.open.ID, Delta: &delta, LogProbs: []struct{}{}})
}

// sendItemEvent sends an event of the current item, unless the client has received it.
func (r *Response) sendItemEvent(step int, ev *Event) {
	r.at.step = step
	ev.OutputIndex = &r.at.slot
	if ev.Item == nil && r.open.Content != nil {
		ev.ContentIndex = &r.content
	}
	r.sendNumbered(r.at.number(), ev)
}

// sendNumbered sends an event with a sequence number, unless the client has received it.
func (r *Response) sendNumbered(n int64, ev *Event) {
	if r.Send != nil && n > r.last {
		r.last = n
		r.event(n, ev)
	}
}

// Fail ends the stream with an error that does not come from the turn.
func (r *Response) Fail(code, message string) {
	null := json.RawMessage("null")
	r.event(max(r.last, 0), &Event{Type: "error", Code: code, Message: message, Param: &null})
}

func (r *Response) event(n int64, ev *Event) {
	if ev.Number = n; r.err == nil {
		r.err = r.Send(ev.Type, event.EncodeJSON(ev))
	}
}

// End ends the stream of a response whose turn has ended or paused.
func (r *Response) End() error {
	r.void()
	r.resolveCut("")
	number := int64(numberEmpty)
	if slot := len(r.Output) + r.voids - 1; slot >= 0 {
		number = place{slot: slot, step: stepOver, voids: r.voids}.number()
	}
	resp := r.Object()
	r.sendNumbered(number, &Event{Type: "response." + resp.Status, Response: resp})
	return r.err
}

// Texts returns the texts of the output's messages.
func (r *Response) Texts() (all []string) {
	for _, item := range r.Output {
		if item.Content != nil {
			all = append(all, (*item.Content)[0].Text)
		}
	}
	return all
}

// NoOutput is the error code of a response or a chat whose turn ended without the structured output that the client
// asked for. NoOutputMessage is its message.
const (
	NoOutput        = "no_output"
	NoOutputMessage = "the agent that answered returned no output in the requested format: it answers with text, or in a format of its own"
)

// status returns the status of the response, and the reason if the answer is incomplete.
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

// About are the settings of a request that are stored with its message.
type About struct {
	Dropped    bool   `json:"dropped,omitempty"` // the request has store: false, so no later request finds the response
	Background bool   `json:"background,omitempty"`
	Previous   string `json:"previous,omitempty"`
	User       string `json:"user,omitempty"` // also in the metadata
}

// AboutKey is the metadata key of a user's message for [About].
const AboutKey = "arbor.response"

// About returns the settings of the request. They are zero if another API received it.
func (r *Response) About() (a About) {
	if r.user != nil {
		_ = json.Unmarshal(event.EncodeJSON(r.user.Metadata[AboutKey]), &a)
	}
	if r.ID.Seq > 0 {
		a.Previous, a.Background = "", false // these belong to the message, not to the decision
	}
	return a
}

// Object returns the current state of the response.
func (r *Response) Object() *Object {
	status, incomplete := r.status()
	about := r.About()
	w := &Object{ID: r.ID.String(), Object: "response", CreatedAt: r.Began.Unix(), Status: status, Background: about.Background, Model: r.Model,
		Output: r.Output, ParallelToolCalls: true, Store: !about.Dropped, ToolChoice: "auto", Tools: []struct{}{}, Metadata: map[string]string{}, User: about.User,
		Arbor: Arbor{Session: r.ID.Session, Turn: r.ID.Turn, Agent: r.result.Agent, State: r.State, Pending: PendingOf(r.pending), Events: r.kept}}
	w.Conversation.ID = r.ID.Session
	if w.Output == nil {
		w.Output = []*Item{}
	}
	if about.Previous != "" {
		w.Previous = &about.Previous
	}
	if r.user != nil {
		for name, value := range r.user.Metadata {
			if s, ok := value.(string); ok && !live.Reserved(name) && (name != "user" || s != about.User) {
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
