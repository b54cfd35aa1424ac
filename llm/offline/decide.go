package offline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/bm25"
	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
)

const (
	transferPrefix = "transfer_to_"
	transferTool   = transferPrefix + "agent"
)

var (
	attributed  = lazyregexp.New(`^\[([A-Za-z0-9_-]{1,64})\] (transferred the conversation to you|returned the conversation to you|did not accept the conversation)?`)
	listLine    = lazyregexp.New(`^\s*- ([A-Za-z0-9_-]+)(?::(.*))?\s*$`)
	tableLine   = lazyregexp.New(`^    ("(?:[^"\\]|\\.)*"): ("(?:[^"\\]|\\.)*"),$`)
	identifiers = lazyregexp.New(`[A-Za-z0-9_-]+`)
	reads       = bm25.Stems("check count describe fetch find get list look lookup query read report retrieve search show status summarize view")
	changes     = bm25.Stems(`add approve book buy cancel change clear close create delete disable drop edit enable execute insert kill merge modify
		move order pay post publish purge put refund reject remove rename replace reset restart revoke send set stop submit update upload write`)
	negations = bm25.Stems("cannot dont never no not t without")
)

// turn is the user's last text and the conversation since then.
type turn struct {
	text    string
	results []llm.ToolResult
	worked  bool            // a tool of this agent has returned a result
	settled bool            // the agent sent text, was refused, or got the conversation back: it does not transfer
	from    map[string]bool // the agents with texts after the user's
}

func readTurn(req *llm.Request) turn {
	messages := req.Messages
	handing := func(tool string) bool { // in this request or before it
		return strings.HasPrefix(tool, transferPrefix) &&
			!slices.ContainsFunc(req.Tools, func(spec llm.ToolSpec) bool { return spec.Name == tool && len(targets(spec)) == 0 })
	}
	t, arrivals := turn{from: map[string]bool{}}, 0
	for i := len(messages) - 1; i >= 0; i-- {
		m, text := messages[i], messages[i].PlainText()
		for _, p := range m.Parts {
			if r, ok := p.(llm.ToolResult); ok {
				t.results, t.worked = slices.Insert(t.results, 0, r), t.worked || !handing(r.Name)
			}
		}
		line := attributed.FindStringSubmatch(text)
		switch {
		case m.Role != llm.RoleUser:
			t.settled = true
		case i > 0 && strings.HasPrefix(text, "[Your answer was empty."): // a text of package view, not of the user
		case line == nil || i == 0:
			t.text = strings.ToValidUTF8(text, "\ufffd")
			return t
		default:
			t.from[line[1]] = true
			if line[2] != "" {
				arrivals++
				t.settled = t.settled || !strings.HasPrefix(line[2], "transferred") || arrivals > 1
			}
		}
	}
	return t
}

// targets returns the agents to which a tool transfers, with their descriptions. It returns none for a tool that does
// not transfer. A tool for one agent has the agent's name in its own.
func targets(spec llm.ToolSpec) (all []option) {
	only, ok := strings.CutPrefix(spec.Name, transferPrefix)
	if !ok {
		return nil
	}
	descriptions, name := map[string]string{}, ""
	for line := range strings.Lines(spec.Description) {
		if m := listLine.FindStringSubmatch(line); m != nil {
			name, line = m[1], m[2]
		}
		descriptions[name] += " " + line
	}
	add := func(name string) {
		all = append(all, option{name: name, spec: spec, agent: true, doc: bm25.Split(name + descriptions[name])})
	}
	s, err := compile(spec.Parameters)
	switch _, listed := descriptions[only]; {
	case err != nil:
	case s.Properties["agent_name"] != nil:
		for _, o := range choices(s.Properties["agent_name"]) {
			name, _ := o.value.(string)
			add(name)
		}
	case listed:
		add(only)
	}
	return all
}

// options returns the tools and targets that the request offers, and, without a name, the agent itself. The agent's own
// words are those of its instructions, except for the sentences about a target.
func options(req *llm.Request) []option {
	var all []option
	named, system := map[string]bool{transferTool: true, transferPrefix: true}, req.System+"\n"
	for _, spec := range req.Tools {
		agents := targets(spec)
		if len(agents) == 0 && spec.Name != transferTool {
			all = append(all, option{name: spec.Name, spec: spec, doc: bm25.Split(spec.Name + " " + spec.Description)})
			continue
		}
		for _, o := range agents {
			named[o.name] = true
		}
		all = append(all, agents...)
		if i := strings.Index(spec.Description, "\n- "); i >= 0 { // the instructions may repeat the list
			list := spec.Description[i:] + "\n"
			system = strings.Replace(system, list, "\n", 1)
			if only, ok := strings.CutPrefix(spec.Name, transferPrefix); ok { // with the tool after the name
				system = strings.Replace(system, strings.Replace(list, "- "+only, "- "+only+" ("+spec.Name+")", 1), "\n", 1)
			}
		}
	}
	var own []bm25.Word
	for _, sentence := range sentenceEnd.Get().Split(system, -1) {
		if !slices.ContainsFunc(identifiers.Get().FindAllString(sentence, -1), func(w string) bool { return named[w] }) {
			own = append(own, bm25.Split(sentence)...)
		}
	}
	return append(all, option{doc: own})
}

// decide returns the call to make, or a text to reply instead, or neither.
func decide(req *llm.Request, t turn) (*llm.ToolCall, string, error) {
	forced := req.ToolChoice != "" && req.ToolChoice != llm.ToolChoiceAuto
	if req.ToolChoice == llm.ToolChoiceNone || !forced && t.worked {
		return nil, "", nil
	}
	var agents, calls []option
	var own []bm25.Word
	said, rival := bm25.Split(t.text), 0.0
	for _, o := range rank(said, options(req)) {
		switch {
		case o.name == "":
			own, rival = o.doc, max(rival, o.score)
		case forced && req.ToolChoice != llm.ToolChoiceRequired && o.spec.Name != string(req.ToolChoice):
		case o.agent && (forced || !t.settled && !t.from[o.name]):
			agents = append(agents, o)
		case !o.agent && (forced || o.score > 0 && asksFor(said, o)):
			calls, rival = append(calls, o), max(rival, o.score)
		}
	}
	if len(agents) > 1 {
		rival = max(rival, agents[1].score)
	}
	if len(agents) > 0 && agents[0].score > margin*rival && adds(said, agents[0].doc, own) {
		calls = slices.Insert(calls, 0, agents[0])
	} else if len(agents) > 0 && forced {
		calls = append(calls, agents[0])
	}
	reply := ""
	for _, invent := range []bool{false, forced} {
		for _, o := range calls {
			var arguments, missing string
			if o.agent {
				given := map[string]string{"reason": reason(said, o.doc)}
				if o.spec.Name == transferTool {
					given["agent_name"] = o.name
				}
				data, _ := json.Marshal(given)
				arguments = string(data)
			} else {
				arguments, missing = fill(o.spec.Parameters, said, t.text, invent)
			}
			if missing == "" {
				return &llm.ToolCall{ID: fmt.Sprintf("call_%d_%s", len(req.Messages), o.name), Name: o.spec.Name, Arguments: arguments}, "", nil
			}
			reply = cmp.Or(reply, fmt.Sprintf("To call %s I need %s: please give that in your next message.", o.name, missing))
		}
	}
	if forced {
		return nil, "", &llm.Error{Code: llm.CodeBadRequest, Message: fmt.Sprintf("the offline model finds no call for the tool choice %q", req.ToolChoice)}
	}
	return nil, reply, nil
}

// whoAnswers answers the routing question as the model would decide with calls. It returns false for any other request.
// The last list of the system text has the names, the agent's own at its end, and the last message quotes the user.
func whoAnswers(req *llm.Request) (string, bool) {
	asked := req.System != "" && len(req.Messages) > 0
	inJSON := req.ResponseFormat != nil && req.ResponseFormat.Name == "who_answers"
	system, brief := tableLines(req.System)
	if !asked || !inJSON && !brief && !strings.HasSuffix(system, "\nReply with the name and nothing else.") {
		return "", false
	}
	lines := strings.Split(system, "\n")
	end := len(lines) - 1 // the last line says how to reply
	begin := end
	for begin > 0 && listLine.MatchString(lines[begin-1]) {
		begin--
	}
	if begin == end {
		return "", false
	}
	name := listLine.FindStringSubmatch(lines[end-1])[1]
	var names []string
	for _, line := range lines[begin : end-1] {
		names = append(names, listLine.FindStringSubmatch(line)[1])
	}
	text := req.Messages[len(req.Messages)-1].PlainText()
	if brief {
		text = unquoted(strings.TrimSuffix(strings.TrimPrefix(text, "route("), ")"))
	} else {
		text = strings.TrimSuffix(strings.TrimPrefix(text, "Message: \""), "\nName:")
		text = strings.TrimSuffix(text, "\"")
	}
	enum, _ := json.Marshal(names)
	tool := llm.ToolSpec{Name: transferTool, Description: strings.Join(lines[begin:end-1], "\n"),
		Parameters: json.RawMessage(`{"type":"object","properties":{"agent_name":{"enum":` + string(enum) + `}}}`)}
	like := &llm.Request{System: strings.Join(lines[:begin], "\n"), Messages: []llm.Message{llm.UserText(text)}, Tools: []llm.ToolSpec{tool}}
	if call, _, err := decide(like, readTurn(like)); err == nil && call != nil && call.Name == transferTool {
		var to struct {
			Name string `json:"agent_name"`
		}
		_ = json.Unmarshal([]byte(call.Arguments), &to) // the model has just encoded them
		name = to.Name
	}
	if inJSON {
		data, _ := json.Marshal(map[string]string{"agent": name})
		return string(data), true
	}
	return name, true
}

// tableLines converts the table of the brief question to the list of the other form, with a line after it. It returns
// false if there is no table.
func tableLines(system string) (string, bool) {
	before, rest, found := strings.Cut("\n"+system, "\nagents = {\n")
	table, how, closed := strings.Cut(rest, "\n}")
	if !found || !closed {
		return system, false
	}
	var list []string
	for line := range strings.SplitSeq(table, "\n") {
		m := tableLine.FindStringSubmatch(line)
		if m == nil {
			return system, false
		}
		list = append(list, "- "+unquoted(m[1])+": "+strings.Join(strings.Fields(unquoted(m[2])), " "))
	}
	return before + "\n" + strings.Join(list, "\n") + "\n" + strings.TrimSpace(how), true
}

// unquoted returns the text of a JSON string, or "" for anything else.
func unquoted(s string) (text string) {
	_ = json.Unmarshal([]byte(s), &text)
	return text
}

// adds reports whether a target contains a word of the user that the agent itself does not contain.
func adds(said, target, own []bm25.Word) bool {
	return slices.ContainsFunc(said, func(w bm25.Word) bool { return w.In(target) && !w.In(own) })
}

// asksFor reports whether the user may mean the tool. If the tool's name, or else the first word of its description,
// has a verb of change before any verb of reading, the user must have written that verb, and not in a negation.
func asksFor(said []bm25.Word, o option) bool {
	first, _, _ := strings.Cut(o.spec.Description, " ")
	for _, v := range bm25.Split(o.name + " " + first) {
		verb := bm25.Stem(v.Text)
		if reads()[verb] {
			return true
		}
		if changes()[verb] {
			i := slices.IndexFunc(said, func(w bm25.Word) bool { return bm25.Stem(w.Text) == verb })
			return i >= 0 && !negated(said[:i])
		}
	}
	return true
}

// negated reports whether one of the last words is a negation.
func negated(before []bm25.Word) bool {
	return slices.ContainsFunc(before[max(0, len(before)-4):], func(w bm25.Word) bool { return negations()[w.Text] })
}

// reason quotes the user's words that match a target: the longest run of them or, if no two are adjacent, the first
// few.
func reason(said, doc []bm25.Word) string {
	var all, run, longest []string
	for _, w := range said {
		if !w.In(doc) {
			run = nil
			continue
		}
		all, run = append(all, visible.Cut(w.Text, 40)), append(run, visible.Cut(w.Text, 40))
		if len(run) > len(longest) {
			longest = run
		}
	}
	if len(longest) < 2 {
		longest = all
	}
	return strings.Join(longest[:min(4, len(longest))], ", ")
}
