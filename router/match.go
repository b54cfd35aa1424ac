package router

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/expression"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/phrases"
	searched "github.com/agentarbor/arbor/internal/words"
)

// Matcher decides whether a rule applies to a turn. Its String method returns the text of the matcher, for people. A
// Matcher is immutable and safe for concurrent use. Only this package implements it; [Predicate] makes a Matcher of a
// function.
type Matcher interface {
	String() string
	compile(*compiler) condition
}

// matcher is a [Matcher] of a text and a function that makes its condition.
type matcher struct {
	written string
	build   func(*compiler) condition
}

func (m matcher) String() string                { return m.written }
func (m matcher) compile(c *compiler) condition { return m.build(c) }

// condition is a compiled matcher.
type condition struct {
	holds func(*deciding) bool
	why   func(*deciding) string // after holds was true: the part of the turn that matched; nil: the text of the matcher
	needs []int32                // holds can be true only if one of these slots has a hit; nil: it needs no words
}

// never is the condition of a matcher that cannot be compiled.
var never = condition{holds: func(*deciding) bool { return false }}

// Turn is what a [Predicate] reads.
type Turn struct {
	Message  string         // what the user said, as plain text
	Metadata map[string]any // of the message; it is shared and must not be changed
	state    func(key string) (any, bool)
}

// State returns a value of the session's state, and whether the key exists.
func (t Turn) State(key string) (any, bool) { return t.state(key) }

// Keyword matches if the message contains one of the words or phrases. Case and the amount of space between the
// words of a phrase do not matter. In scripts with spaces, only whole words match, and a * at the end matches every
// word with that beginning. In scripts without spaces, a word matches anywhere.
func Keyword(words ...string) Matcher {
	words = slices.Clone(words)
	return matcher{written("keyword", words), func(c *compiler) condition {
		slot := c.slot()
		if len(words) == 0 {
			c.problem("a keyword matcher has no words")
		}
		for i, w := range words {
			if !c.words.Word(w, slot, int32(i)+1) {
				c.problem("the keyword %q is empty", w)
			}
		}
		return condition{
			func(d *deciding) bool { return d.search()[slot] != 0 },
			func(d *deciding) string { return "keyword " + strconv.Quote(words[d.search()[slot]-1]) },
			[]int32{slot},
		}
	}}
}

// Regexp matches if the message has a match of a regular expression of Go's package regexp. An invalid expression is
// a problem that [New] reports.
func Regexp(re string) Matcher {
	return matcher{written("regexp", []string{re}), func(c *compiler) condition {
		compiled, err := regexp.Compile(re)
		if err != nil {
			c.problem("the regular expression cannot be read: %v", err)
			return never
		}
		var slots []int32
		for _, set := range searched.Literals(re) {
			slot := c.slot()
			slots = append(slots, slot)
			for _, text := range set {
				c.words.Text(text, slot, 1)
			}
		}
		return condition{needs: slots[:min(len(slots), 1)], holds: func(d *deciding) bool {
			for _, slot := range slots {
				if d.search()[slot] == 0 {
					return false
				}
			}
			return compiled.MatchString(d.text)
		}}
	}}
}

// Predicate matches if f returns true. F may be called by several goroutines at the same time, and must depend on
// the turn alone.
func Predicate(f func(Turn) bool) Matcher {
	return matcher{"predicate", func(c *compiler) condition {
		if f == nil {
			c.problem("the function of a predicate is nil")
		}
		return condition{holds: func(d *deciding) bool { return f(d.turn) }}
	}}
}

// Language matches if the turn is in one of the languages. The language is the metadata key "language" of the message,
// or else the likeliest label of a classifier of languages. A BCP 47 tag also matches the longer tags that begin with
// it: "de" matches "de-AT", but "de-AT" does not match "de".
func Language(tags ...string) Matcher {
	tags = slices.Clone(tags)
	return matcher{written("language", tags), func(c *compiler) condition {
		if len(tags) == 0 {
			c.problem("a language matcher has no tags")
		}
		for _, tag := range tags {
			if tag == "" || strings.ContainsFunc(tag, func(r rune) bool { return r != '-' && (r > unicode.MaxASCII || !isAlphanumeric(byte(r))) }) {
				c.problem("%q is not a language tag, such as de or de-AT", tag)
			}
		}
		return condition{holds: func(d *deciding) bool {
			is := d.language()
			return slices.ContainsFunc(tags, func(tag string) bool {
				n := len(tag)
				return len(is) >= n && strings.EqualFold(is[:n], tag) && (len(is) == n || !isAlphanumeric(is[n]))
			})
		}, why: func(d *deciding) string { return "language " + d.language() }}
	}}
}

func isAlphanumeric(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}

// Intent matches if the confidence in a label, from 0 to 1, is at least above.
func Intent(label string, above float64) Matcher { return level{KindIntent, label, above, 1} }

// Sentiment matches if the strength of a sentiment, such as "frustration", is at least 0.5 in this turn.
// [SentimentMatcher.Above] and [SentimentMatcher.OverTurns] change that.
func Sentiment(label string) SentimentMatcher {
	return SentimentMatcher{level{KindSentiment, label, 0.5, 1}}
}

// SentimentMatcher is a [Matcher] made by [Sentiment].
type SentimentMatcher struct{ level }

// Above sets the least strength that matches, over 0 and at most 1.
func (m SentimentMatcher) Above(x float64) SentimentMatcher { m.above = x; return m }

// OverTurns matches only if the sentiment was as strong in each of the last n turns that the router measured, this
// turn included. N is at most 16. A router with such a rule measures the sentiment in every turn that it decides.
func (m SentimentMatcher) OverTurns(n int) SentimentMatcher { m.turns = n; return m }

const maxTurns = 16

// level is the matcher of an intent or a sentiment.
type level struct {
	kind  Kind
	label string
	above float64
	turns int
}

func (l level) String() string {
	s := fmt.Sprintf("%s(%q, %v)", l.kind, l.label, l.above)
	if l.turns != 1 {
		s += fmt.Sprintf(" over %d turns", l.turns)
	}
	return s
}

func (l level) compile(c *compiler) condition {
	if !(l.above > 0 && l.above <= 1) {
		c.problem("%s: %v is not in the range over 0 up to 1", l.kind, l.above)
	}
	if l.turns < 1 || l.turns > maxTurns {
		c.problem("%s: %d turns: the number must be 1 to %d", l.kind, l.turns, maxTurns)
	}
	if given := c.classifiers[l.kind]; given == nil {
		c.problem("there is no classifier for %s %q: give one by Signals", l.kind, l.label)
	} else if known := given.Labels(); known != nil && !slices.Contains(known, l.label) {
		c.problem("the classifier knows no %s %q%s", l.kind, l.label, nearest.Hint(l.label, known))
	}
	c.turns = max(c.turns, l.turns)
	return condition{holds: func(d *deciding) bool {
		n := len(d.before) - l.turns + 1
		return d.measure(l.kind).of(l.label) >= l.above && n >= 0 &&
			!slices.ContainsFunc(d.before[n:], func(m mood) bool { return m.Values[l.label] < l.above })
	}, why: func(d *deciding) string {
		return fmt.Sprintf("%s %s %.2f", l.kind, l.label, d.measure(l.kind).of(l.label))
	}}
}

// State matches if a key of the session's state has a value, compared as JSON. The value nil matches a missing key.
func State(key string, value any) Matcher {
	encoded := event.EncodeJSON(value)
	plain := expression.Decode(encoded)
	return matcher{fmt.Sprintf("state(%q, %s)", key, encoded), func(c *compiler) condition {
		if key == "" {
			c.problem("a state matcher has no key")
		}
		return condition{holds: func(d *deciding) bool {
			switch v, _ := d.turn.State(key); v := v.(type) {
			case string, bool, nil:
				return v == plain
			default:
				return bytes.Equal(event.EncodeJSON(v), encoded)
			}
		}}
	}}
}

// WantsHuman matches if the user asks for a person: the metadata key "wantsHuman" of the message is true, or the
// text asks for one in a usual form of English, German, French, Spanish, Portuguese, Italian, Dutch, Polish,
// Russian, Turkish, Chinese, Japanese or Korean. A text that only mentions the word human or agent does not match.
func WantsHuman() Matcher {
	return matcher{"wantsHuman()", func(c *compiler) condition {
		asked, declined := phrases.AskForPerson()
		said, not := c.compile(Keyword(asked...)), c.compile(Keyword(declined...))
		marked := func(d *deciding) bool { return d.turn.Metadata["wantsHuman"] == true }
		return condition{holds: func(d *deciding) bool { return marked(d) || said.holds(d) && !not.holds(d) }, why: func(d *deciding) string {
			if marked(d) {
				return "wantsHuman in the metadata"
			}
			return "asks for a person: " + said.why(d)
		}}
	}}
}

// Expr matches if an expression is true, in the language of the conditions of graphs. The expression can use
// input.message, input.metadata, input.language, input.intent.label, input.intent.confidence, input.sentiment, which
// maps labels to strengths, and state, with the given keys. The router measures only the signals that the source names.
// An expression that has no value does not match, and a notice reports that.
func Expr(source string, stateKeys ...string) Matcher {
	stateKeys = slices.Clone(stateKeys)
	return matcher{written("expr", []string{source}), func(c *compiler) condition {
		program, err := expression.WithInput(inputKeys, stateKeys...).CompileCondition(source)
		if err != nil {
			c.problem("the expression %q: %v", source, err)
			return never
		}
		var needs []Kind
		for _, kind := range kinds {
			if !strings.Contains(source, string(kind)) {
				continue
			}
			if needs = append(needs, kind); kind != KindLanguage && c.classifiers[kind] == nil && strings.Contains(source, "input."+string(kind)) {
				c.problem("the expression %q names input.%s, and there is no classifier of that kind: give one by Signals", source, kind)
			}
		}
		rule := c.rule
		return condition{holds: func(d *deciding) bool {
			state := make(map[string]any, len(stateKeys))
			for _, key := range stateKeys {
				if v, ok := d.turn.State(key); ok {
					state[key] = v
				}
			}
			ok := false
			env, err := expression.EnvOf(nil, d.inputOf(needs), state)
			if err == nil {
				ok, err = program.Test(env)
			}
			if err != nil {
				d.logger.Warn("the expression of a rule has no value", "router", d.engine.name, "rule", rule, "error", err)
				d.notice(NoticeRuleFailed, "rule %d does not match: its expression has no value for this turn", rule)
			}
			return ok
		}}
	}}
}

// All matches if all matchers match. They are evaluated in order, up to the first that does not match.
func All(m ...Matcher) Matcher {
	return combine("all", m, func(parts []condition) condition {
		var needs []int32
		for _, p := range parts {
			if needs = p.needs; needs != nil { // the words of one part suffice, because all parts must match
				break
			}
		}
		return condition{needs: needs, holds: func(d *deciding) bool {
			for i := range parts {
				if !parts[i].holds(d) {
					return false
				}
			}
			return true
		}, why: func(d *deciding) string {
			var texts []string
			for _, p := range parts {
				texts = append(texts, p.why(d))
			}
			return strings.Join(texts, " and ")
		}}
	})
}

// Any matches if one of the matchers matches. They are evaluated in order, up to the first that matches.
func Any(m ...Matcher) Matcher {
	return combine("any", m, func(parts []condition) condition {
		first := func(d *deciding) *condition {
			for i := range parts {
				if parts[i].holds(d) {
					return &parts[i]
				}
			}
			return nil
		}
		var needs []int32
		for _, p := range parts {
			if needs = append(needs, p.needs...); p.needs == nil {
				needs = nil
				break
			}
		}
		return condition{needs: needs, holds: func(d *deciding) bool { return first(d) != nil }, why: func(d *deciding) string {
			if c := first(d); c != nil { // nil if a predicate now returns something else
				return c.why(d)
			}
			return "any"
		}}
	})
}

// Not matches if the matcher does not match.
func Not(m Matcher) Matcher {
	return combine("not", []Matcher{m}, func(parts []condition) condition {
		return condition{holds: func(d *deciding) bool { return !parts[0].holds(d) }}
	})
}

// combine returns a matcher of several matchers.
func combine(op string, of []Matcher, join func([]condition) condition) Matcher {
	of = slices.Clone(of)
	texts := make([]string, len(of))
	for i, m := range of {
		if texts[i] = "nil"; m != nil {
			texts[i] = m.String()
		}
	}
	return matcher{op + "(" + strings.Join(texts, ", ") + ")", func(c *compiler) condition {
		if len(of) == 0 {
			c.problem("%s() has no matchers", op)
		}
		parts := make([]condition, len(of))
		for i, m := range of {
			parts[i] = c.compile(m)
		}
		return join(parts)
	}}
}

// written returns the text of a matcher with arguments.
func written(name string, args []string) string {
	out := make([]string, len(args))
	for i, t := range args {
		out[i] = strconv.Quote(t)
	}
	return name + "(" + strings.Join(out, ", ") + ")"
}
