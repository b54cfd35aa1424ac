package scripted

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/llm"
)

// Parse reads a script from text; the package comment describes the grammar. Its error contains the line, as in "script
// line 3: …".
func Parse(data []byte, opts ...Option) (*Script, error) {
	s := New(opts...)
	p := &parser{rest: strings.TrimPrefix(string(data), "\ufeff"), line: 1, bol: true}
	closed := map[string]bool{} // the agents whose last answer has "always"
	for p.header() {
		line := p.line
		agent, err := p.agent()
		if err != nil {
			return nil, err
		}
		if closed[agent] {
			return nil, fmt.Errorf("script line %d: agent %q can have no answer after the answer with always", line, agent)
		}
		p.always, p.faulty = false, false
		var items []Item
		for p.item() {
			it, err := p.parseItem()
			if err != nil {
				return nil, err
			}
			items = append(items, it)
		}
		if p.always {
			s.Always(agent, Reply(items...))
			closed[agent] = true
		} else {
			s.Add(agent, Reply(items...))
		}
	}
	return s, nil
}

type parser struct {
	rest   string
	line   int
	bol    bool // at the beginning of a line
	always bool // the current answer is used for every further call
	faulty bool // a fault has ended the current answer
}

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("script line %d: %s", p.line, fmt.Sprintf(format, args...))
}

// take consumes the next n bytes and returns them.
func (p *parser) take(n int) string {
	s := p.rest[:n]
	p.rest = p.rest[n:]
	if n > 0 {
		p.line += strings.Count(s, "\n")
		p.bol = s[n-1] == '\n'
	}
	return s
}

// blank reports whether the current line is empty or a comment, and returns its length.
func (p *parser) blank() (int, bool) {
	n := strings.IndexByte(p.rest, '\n') + 1
	if n == 0 {
		n = len(p.rest)
	}
	t := strings.TrimSpace(p.rest[:n])
	return n, t == "" || t[0] == '#'
}

// header moves to the next line with content. It returns false at the end.
func (p *parser) header() bool {
	for p.rest != "" {
		n, blank := p.blank()
		if !blank {
			return true
		}
		p.take(n)
	}
	return false
}

// item moves to the next item of the current answer. It returns false at its end.
func (p *parser) item() bool {
	for p.rest != "" {
		if p.bol {
			if n, blank := p.blank(); blank {
				p.take(n)
				continue
			}
			if p.rest[0] != ' ' && p.rest[0] != '\t' {
				return false
			}
		}
		if strings.IndexByte(" \t\r\n", p.rest[0]) < 0 {
			return true
		}
		p.take(1)
	}
	return false
}

func (p *parser) agent() (string, error) {
	if p.rest[0] == ' ' || p.rest[0] == '\t' {
		return "", p.errorf("an indented line continues an answer, but none has started")
	}
	i := strings.IndexAny(p.rest, ":\n\" \t")
	if i <= 0 || p.rest[i] != ':' {
		return "", p.errorf("an answer starts with the agent's name and a colon, such as «billing: \"Hello\"»")
	}
	name := p.take(i)
	p.take(1)
	return name, nil
}

// word consumes everything up to the next space.
func (p *parser) word() string {
	i := strings.IndexAny(p.rest, " \t\r\n")
	if i < 0 {
		i = len(p.rest)
	}
	return p.take(i)
}

// spaces skips white space within an answer, including line ends, if an item follows.
func (p *parser) spaces() { p.item() }

func (p *parser) quoted(after string) (string, error) {
	p.spaces()
	if p.rest == "" || p.bol || p.rest[0] != '"' && p.rest[0] != '`' {
		return "", p.errorf("a quoted string must follow %s", after)
	}
	return p.str()
}

func (p *parser) str() (string, error) {
	q, err := strconv.QuotedPrefix(p.rest)
	if err != nil {
		return "", p.errorf("this string has no end, or a bad escape: %.40s", p.rest)
	}
	p.take(len(q))
	if p.rest != "" && strings.IndexByte(" \t\r\n", p.rest[0]) < 0 {
		return "", p.errorf("a space must follow the string %.40s", q)
	}
	return strconv.Unquote(q)
}

func (p *parser) parseItem() (Item, error) {
	if p.rest[0] == '"' || p.rest[0] == '`' {
		s, err := p.str()
		return p.streamed(Text(s), err)
	}
	line := p.line
	w := p.word()
	key, value, assigned := strings.Cut(w, "=")
	bad := func(format string, args ...any) (Item, error) {
		return Item{}, fmt.Errorf("script line %d: %s", line, fmt.Sprintf(format, args...))
	}
	switch {
	case w == "think":
		s, err := p.quoted("think")
		return p.streamed(Think(s), err)
	case w == "likely":
		it, err := p.likely()
		return p.streamed(it, err)
	case w == "call":
		it, err := p.call()
		return p.streamed(it, err)
	case w == "expect":
		return p.expect()
	case w == "always":
		p.always = true
		return Item{}, nil
	case !assigned || value == "":
		return bad("%q is not an item; text must be quoted", w)
	case key == "finish":
		return Finish(llm.FinishReason(value)), nil
	case key == "model":
		return p.streamed(ModelName(value), nil)
	case key == "usage":
		var n [3]int
		fields := strings.Split(value, "/")
		if len(fields) != 2 && len(fields) != 3 {
			return bad("usage is input/output[/cached], such as usage=12/7; this is %q", w)
		}
		for i, f := range fields {
			var err error
			if n[i], err = strconv.Atoi(f); err != nil || n[i] < 0 {
				return bad("%q in usage is not a number of tokens", f)
			}
		}
		return Usage(n[0], n[1], n[2]), nil
	case key == "fault":
		it, err := fault(value)
		if err != nil {
			return bad("%v", err)
		}
		it, err = p.streamed(it, nil)
		p.faulty = true
		return it, err
	}
	return bad("%q is not an item; an item can be finish=, usage=, model= or fault=", w)
}

// streamed returns an error for an item of the stream after a fault.
func (p *parser) streamed(it Item, err error) (Item, error) {
	if err == nil && p.faulty {
		err = p.errorf("no item of the stream can follow a fault")
	}
	return it, err
}

func (p *parser) call() (Item, error) {
	p.spaces()
	if p.rest == "" || p.bol {
		return Item{}, p.errorf("a tool's name must follow call")
	}
	name, id, hasID := strings.Cut(p.word(), "#")
	if name == "" || hasID && id == "" || strings.ContainsAny(name+id, "{}[]\"`=") {
		return Item{}, p.errorf("a tool's name must follow call, as NAME or NAME#ID, and then a space")
	}
	p.spaces()
	switch {
	case p.rest == "" || p.bol:
	case p.rest[0] == '{' || p.rest[0] == '[':
		dec := json.NewDecoder(strings.NewReader(p.rest))
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return Item{}, p.errorf("the arguments of %s are not JSON (write raw \"…\" to send them so): %v", name, err)
		}
		return CallID(id, name, p.take(int(dec.InputOffset()))), nil
	case p.rest == "raw" || strings.HasPrefix(p.rest, "raw") && strings.IndexByte(" \t\r\n", p.rest[3]) >= 0:
		p.take(len("raw"))
		args, err := p.quoted("raw")
		return CallID(id, name, args), err
	}
	return CallID(id, name, ""), nil
}

func (p *parser) likely() (Item, error) {
	text, err := p.quoted("likely")
	if err != nil {
		return Item{}, err
	}
	p.spaces()
	probability, err := strconv.ParseFloat(p.word(), 64)
	others := map[string]float64{}
	if p.spaces(); err == nil && !p.bol && strings.HasPrefix(p.rest, "{") {
		dec := json.NewDecoder(strings.NewReader(p.rest))
		err = dec.Decode(&others)
		p.take(int(dec.InputOffset()))
	}
	sum := probability
	for _, other := range others {
		sum += other
		if !(other >= 0) {
			sum = 2
		}
	}
	if err != nil || !(probability > 0) || sum > 1.001 {
		return Item{}, p.errorf("likely is a text, its probability, and perhaps others, such as likely \"billing\" 0.6 {\"tech\": 0.3}; at most 1 in total")
	}
	return Likely(text, probability, others), nil
}

func (p *parser) expect() (Item, error) {
	p.spaces()
	kind := p.word()
	if expect := map[string]func(string) Item{"user": ExpectUser, "system": ExpectSystem, "result": ExpectResult}[kind]; expect != nil {
		text, err := p.quoted("expect " + kind)
		return expect(text), err
	}
	if kind != "tools" {
		return Item{}, p.errorf("expect takes user, system, result or tools, not %q", kind)
	}
	p.spaces()
	if p.rest == "" || p.bol {
		return Item{}, p.errorf("names must follow expect tools, such as a,b, or none")
	}
	list := p.word()
	if list == "none" {
		return ExpectTools(), nil
	}
	return ExpectTools(strings.Split(list, ",")...), nil
}

func fault(value string) (Item, error) {
	kind, arg, _ := strings.Cut(value, ":")
	if kind == "cut" && arg == "" {
		return Cut(), nil
	}
	if kind == "status" {
		number, after, delayed := strings.Cut(arg, "/")
		status, err := strconv.Atoi(number)
		if err != nil || status < 400 || status > 599 {
			return Item{}, fmt.Errorf("fault=status needs an HTTP status from 400 to 599, not %q", number)
		}
		var wait time.Duration
		if delayed {
			if wait, err = time.ParseDuration(after); err != nil || wait < 0 {
				return Item{}, fmt.Errorf("%q is not a time to wait, such as 2s", after)
			}
		}
		return Status(status, wait), nil
	}
	switch code := llm.ErrorCode(value); code {
	case llm.CodeUnreachable, llm.CodeTimeout, llm.CodeTruncated, llm.CodeUnauthorized, llm.CodeNotFound,
		llm.CodeBadRequest, llm.CodeContextLength, llm.CodeRateLimited, llm.CodeServer, llm.CodeBadResponse:
		return Fail(&llm.Error{Code: code, Message: "scripted fault", Retryable: retryable(code)}), nil
	}
	return Item{}, fmt.Errorf("%q is not a fault: it can be cut, status:503, status:429/2s or an error code of package llm", value)
}
