package conversation_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// generator makes streams of events as text. It is deterministic.
type generator struct {
	*rand.Rand
	runs, ids []string
	strict    bool // only what a sender of good manners would write
}

// newGenerator returns a generator of the stream with a number. Some streams have
// few ids, so that everything meets everything; some have ids that are awkward in
// JavaScript or in JSON; and some are conversations.
func newGenerator(seed uint64, number int) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(number)))}
	switch number % 4 {
	case 0, 1:
		g.runs = []string{"r", "s", "q", "p", "a", "r:a"}
		g.ids = []string{"", "a", "b", "c", "d", "r", "s", "q", "r:a", "s:a:result", "r:user", "r:usage:1", "s:error:2", "q:harness_start", "a:result", ":result", "call_1"}
	case 2:
		g.runs = []string{"10", "9", "__proto__", "constructor", "\u2028", "é😀", `\ud800`, `a\u0000b`}
		g.ids = []string{"1", "0", "01", "-1", "__proto__", "constructor", "toString", "hasOwnProperty", "10", "9:user", `\ud83d`, `\ude00`, "\ufffd", `\u0061`, "a", `\"`, `\\`, "<&>", "\x7f", "call_1", "call_2", "a b", "", strings.Repeat("x", 65)}
	case 3:
		g.strict = true
	}
	return g
}

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// oneIn is true once in n times.
func (g *generator) oneIn(n int) bool { return g.IntN(n) == 0 }

// stream returns the lines of a stream.
func (g *generator) stream() []string {
	if g.strict {
		return g.conversation()
	}
	lines := make([]string, 1+g.IntN(60))
	for i := range lines {
		lines[i] = g.event()
		if i > 0 && g.oneIn(8) {
			lines[i] = lines[g.IntN(i)] // again
		}
	}
	return lines
}

// object writes members in their order, now and then with spaces or one of them
// twice.
type object struct {
	g     *generator
	parts []string
}

func (o *object) add(name, raw string) {
	// As a value, seq 1e3 is 1000, and as text it is none; nobody sends it.
	if !o.g.strict && name != "seq" && o.g.oneIn(60) {
		o.parts = append(o.parts, strconv.Quote(name)+":"+o.g.value(1))
	}
	o.parts = append(o.parts, strconv.Quote(name)+":"+raw)
}

// text adds a string that is written as it stands in the lists above, escapes and
// all, and seldom something that is no string.
func (o *object) text(name, inside string) {
	if !o.g.strict && o.g.oneIn(40) {
		o.add(name, pick(o.g, "null", "7", "true", `["x"]`, `{"a":1}`))
		return
	}
	o.add(name, `"`+inside+`"`)
}

func (o *object) String() string {
	g := o.g
	if !g.strict {
		if g.oneIn(3) {
			g.Shuffle(len(o.parts), func(i, j int) { o.parts[i], o.parts[j] = o.parts[j], o.parts[i] })
		}
		if g.oneIn(5) {
			return " {\t" + strings.Join(o.parts, " ,\n") + " } "
		}
	}
	return "{" + strings.Join(o.parts, ",") + "}"
}

// value returns any JSON value.
func (g *generator) value(depth int) string {
	if depth > 0 && g.oneIn(2) {
		var parts []string
		isList := g.oneIn(3)
		for range g.IntN(4) {
			part := g.value(depth - 1)
			if !isList {
				part = `"` + pick(g, "b", "a", "2", "1", "__proto__", "constructor", "", "toJSON", `\u0061`) + `"` + pick(g, ":", " : ") + part
			}
			parts = append(parts, part)
		}
		inside := strings.Join(parts, pick(g, ",", " , "))
		if isList {
			return "[" + inside + "]"
		}
		return "{" + inside + "}"
	}
	return pick(g, "null", "true", "false", "0", "-0", "1", "-7", "2.50", "1e3", "1E-2", "12345678901234567890", "0.1", "1e400", "-1e400",
		`""`, `"x"`, `"a b"`, `"é"`, `"\u00e9"`, `"\ud83d"`, `"\ude00"`, `"😀"`, "\"\u2028\"", `"\/"`, `"<&>"`, "\"\x7f\"", `"\n\"\\"`)
}

// event returns any event, and seldom a line that is none.
func (g *generator) event() string {
	if g.oneIn(100) {
		return pick(g, "", "{", "[]", "null", `"x"`, "7", "{} {}", `{"type":}`, `{"a":1,}`, "{'a':1}")
	}
	o := &object{g: g}
	kind := pick(g, "user", "harness_start", "harness_end", "text", "text", "text", "text", "reasoning", "reasoning", "tool_call", "tool_call", "tool_result",
		"tool_result", "tool_progress", "relay", "relay_resolved", "usage", "error", "discard", "discard", "notice", "notice", "transfer", "new", "__proto__", "constructor")
	o.text("type", kind)
	if !g.oneIn(50) {
		o.text("runId", pick(g, g.runs...))
	}
	if !g.oneIn(6) {
		o.text("id", pick(g, g.ids...))
	}
	if g.oneIn(2) {
		parent := pick(g, append(g.ids, g.runs...)...)
		if g.oneIn(3) {
			parent = pick(g, g.runs...) + ":" + parent
		}
		o.text("parentId", parent)
	}
	if g.oneIn(3) {
		o.add("partial", pick(g, "true", "true", "true", "false", "null", "1", `"true"`))
	}
	if g.oneIn(5) {
		o.add("seq", pick(g, strconv.Itoa(1+g.IntN(12)), strconv.Itoa(1+g.IntN(12)), "0", "-3", "1.5", `"7"`, "null", "-0", "9007199254740991", "9007199254740993", "99999999999999999999"))
	}
	if g.oneIn(5) {
		o.text("agent", pick(g, "a", "", "é", `\ud800x`))
	}
	if g.oneIn(8) {
		o.text("path", "a/b")
	}
	if g.oneIn(5) {
		o.text("time", g.time())
	}
	g.payload(o, kind)
	return o.String()
}

func (g *generator) payload(o *object, kind string) {
	switch kind {
	case "discard":
		var ids []string
		for range g.IntN(4) {
			id := `"` + pick(g, g.ids...) + `"`
			if g.oneIn(20) {
				id = g.value(1)
			}
			ids = append(ids, id)
		}
		o.add("ids", "["+strings.Join(ids, ",")+"]")
		return
	case "notice":
		o.add("code", pick(g, `"taken_over"`, `"taken_over"`, `"resumed"`, "null"))
		return
	case "relay_resolved":
		o.text("relayId", pick(g, g.ids...))
		o.add("approved", pick(g, "true", "false", "true", "null", "1"))
		return
	case "text", "reasoning":
		if !g.oneIn(8) {
			o.add("content", pick(g, `"x"`, `"yz"`, `""`, `"é"`, `"\u00e9"`, `"\ud83d"`, `"\ude00"`, "\"\u2028\"", `"\n"`, `"\/"`, `" "`, g.long()))
			return
		}
	}
	if g.oneIn(2) {
		switch kind {
		case "user":
			o.add("content", g.content())
		case "tool_progress", "relay":
			o.text("toolCallId", pick(g, g.ids...))
		case "tool_call":
			o.add("name", pick(g, `"look"`, `"find it, é😀"`, `""`, `"`+strings.Repeat("n", 70)+`"`, g.long()))
		}
	}
	for _, name := range []string{"content", "name", "input", "output", "isError", "toolCallId", "kind", "tool", "params", "agentId", "finishReason", "target",
		"inputTokens", "outputTokens", "cachedTokens", "model", "code", "message", "retryable", "metadata", "state", "foo"} {
		if g.oneIn(4) {
			o.add(name, g.value(2))
		}
	}
}

// long returns a text that is too long for a label, of letters of all lengths and of
// all that can stand between words.
func (g *generator) long() string {
	var b strings.Builder
	for range 20 + g.IntN(200) {
		b.WriteString(pick(g, "a", "é", "€", "😀", " ", "a", "😀", `\n`, `\u0001`, `\u0085`, `\u00a0`, `\u200b`, `\u3000`, `\ud83d`, `\ufeff`, `\u001c`))
	}
	return `"` + b.String() + `"`
}

// content returns what a user says: parts, in good form or not.
func (g *generator) content() string {
	var parts []string
	for range g.IntN(3) {
		part := []string{`"` + pick(g, "type", "type", "Type") + `":"` + pick(g, "text", "text", "image", "file", "odd") + `"`}
		for _, name := range []string{"text", "mediaType", "data", "url", "name", "more"} {
			if g.oneIn(3) {
				value := pick(g, `""`, `"x"`, `"\ud83d"`, "null")
				if name == "data" {
					value = pick(g, `""`, `"YWI="`, `"YW\nI="`, `"YWI"`, `"-"`, "null", "7")
				}
				part = append(part, `"`+pick(g, name, name, strings.ToUpper(name))+`":`+value)
			}
		}
		parts = append(parts, "{"+strings.Join(part, ",")+"}")
	}
	if g.oneIn(6) {
		parts = append(parts, pick(g, "null", "7", `"x"`, "[]", "{}"))
	}
	return "[" + strings.Join(parts, " , ") + "]"
}

// time returns a time, in good form or not.
func (g *generator) time() string {
	if g.oneIn(4) {
		return pick(g, "", "x", "2026-02-29T00:00:00Z", "2026-01-02", "2026-01-02t03:04:05Z", "2026-01-02T03:04:60Z", "2026-01-02T24:00:00Z", "2026-13-02T03:04:05Z",
			"2026-01-02T3:04:05Z", "2026-01-02T03:04:05,5Z", "2026-01-02T03:04:05.Z", "2026-01-02T03:04:05", "2026-01-02T03:04:05+24:00", "2026-01-02T03:04:05+25:00",
			"2026-01-02T03:04:05-00:60", "0001-01-01T00:00:00Z", "0001-01-01T01:00:00+01:00", "0099-12-31T23:59:59Z", "0000-02-29T00:00:00Z",
			"2026-01-02T03:04:05.0000000019Z", "2026-01-02T03:04:05Z ", "+2026-01-02T03:04:05Z", "2026-01-02T03:04:05z")
	}
	fraction := pick(g, "", ".5", ".120", ".123456789", ".000000001", ".000", ".1234567891")
	return fmt.Sprintf("2026-%02d-%02dT%02d:%02d:%02d%s%s", 1+g.IntN(12), 1+g.IntN(28), g.IntN(24), g.IntN(60), g.IntN(60), fraction,
		pick(g, "Z", "+02:00", "-05:30", "+00:00", "-00:00", "+23:59"))
}

// conversation returns what a runner sends about some runs, mixed, with attempts
// that were given up, and with a part of the stored events sent again.
func (g *generator) conversation() []string {
	stored, oneAgent, fork := g.oneIn(2), g.oneIn(2), g.oneIn(4)
	seq := 0
	parents := []string{""}
	var calls []string
	var runs [][]string
	for i := range 1 + g.IntN(6) {
		run := fmt.Sprintf("run%d", i)
		parent := pick(g, parents...)
		if fork && g.oneIn(2) {
			seq = 0 // as in a session that shares nothing with the one before
		}
		agent := "support"
		if !oneAgent {
			agent = run
		}
		path := pick(g, "", "", "", "x")
		var lines []string
		add := func(kind, id string, partial bool, payload ...string) {
			o := &object{g: g}
			o.text("type", kind)
			o.text("runId", run)
			if id != "" {
				o.text("id", id)
			}
			if len(lines) == 0 && parent != "" {
				o.text("parentId", parent)
			}
			if partial {
				o.add("partial", "true")
			} else if stored {
				seq++
				o.add("seq", strconv.Itoa(seq))
				o.text("time", g.time())
			}
			o.text("agent", agent)
			if path != "" {
				o.text("path", path)
			}
			for i := 0; i < len(payload); i += 2 {
				o.add(payload[i], payload[i+1])
			}
			lines = append(lines, o.String())
		}
		if g.oneIn(3) {
			add("user", "", false, "content", pick(g, `"Hello"`, `[{"type":"text","text":"Look"},{"type":"image","url":"http://x/y.png"}]`, `[{"type":"text","text":"One"}]`))
			parents = append(parents, run+":user", run)
			runs = append(runs, lines)
			continue
		}
		add("harness_start", "", false, "agentId", `"a"`)
		parents = append(parents, run+":harness_start", run)
		for j := range g.IntN(6) {
			id := fmt.Sprintf("%s-%d", run, j)
			parents = append(parents, id)
			switch g.IntN(7) {
			case 0, 1:
				kind := pick(g, "text", "text", "reasoning")
				whole := ""
				for range g.IntN(4) {
					delta := pick(g, "a", "b c", "é", `\n`, "😀")
					whole += delta
					add(kind, id, true, "content", `"`+delta+`"`)
				}
				if g.oneIn(5) {
					add("discard", "", false, "ids", `["`+id+`"]`)
					break
				}
				add(kind, id, false, "content", `"`+whole+`"`)
			case 2, 3:
				call, _ := json.Marshal(id)
				calls = append(calls, id)
				add("tool_call", id, false, "name", pick(g, `"look"`, `"find it"`, `""`), "input", pick(g, "{}", `{"q":"x","n":2.50}`, "null", `"x"`))
				if g.oneIn(3) {
					add("tool_progress", id+"p", false, "toolCallId", string(call), "name", `"look"`, "content", g.value(1))
				}
				if g.oneIn(3) {
					add("relay", id+"q", false, "kind", `"permission"`, "toolCallId", string(call), "tool", `"look"`, "params", "{}")
					if g.oneIn(2) {
						add("relay_resolved", "", false, "relayId", `"`+id+`q"`, "approved", pick(g, "true", "false"))
					}
				}
				if !g.oneIn(4) {
					add("tool_result", id, false, "name", `"look"`, "output", g.value(2), "isError", pick(g, "false", "true"))
				}
			case 4:
				add("usage", "u"+id, false, "inputTokens", "10", "outputTokens", "3")
			case 5:
				add("error", "e"+id, false, "code", `"c"`, "message", `"It broke."`)
			case 6:
				if len(calls) > 0 { // of this run or of one that it takes up
					add("tool_result", pick(g, calls...), false, "name", `"look"`, "output", `"`+id+`"`)
					break
				}
				add("notice", "", false, "text", `"x"`)
			}
		}
		if !g.oneIn(4) {
			add("harness_end", "", false, "agentId", `"a"`, "finishReason", `"stop"`)
			parents = append(parents, run+":harness_end")
		}
		runs = append(runs, lines)
	}
	var mixed []string
	for len(runs) > 0 {
		i := 0
		if g.oneIn(3) {
			i = g.IntN(len(runs))
		}
		mixed = append(mixed, runs[i][0])
		if runs[i] = runs[i][1:]; len(runs[i]) == 0 {
			runs = append(runs[:i:i], runs[i+1:]...)
		}
		if stored && g.oneIn(10) {
			mixed = append(mixed, mixed[g.IntN(len(mixed))])
		}
	}
	return mixed
}
