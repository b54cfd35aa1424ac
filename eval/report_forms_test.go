package eval

import (
	"encoding/xml"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
)

// reported is a report of two subjects: one case passes, one fails one of two times, one ends
// with an error, and all words drive terminals.
func reported() *Report {
	price := 0.002
	turn := func(wrong ...Difference) TurnOutcome {
		return TurnOutcome{
			User: "I was charged\ntwice \x1b[31m& <more>", Line: 4, Expected: "support > billing", Path: []string{"support", "billing"}, Answered: "billing",
			Said: "Two charges.\x00\x1b]0;owned\x07 \u202e ]]> <b>", Decisions: []Decision{{"support", "billing", "billing"}}, Transfers: 1, ModelCalls: 2,
			Usage: event.Usage{InputTokens: 100, CachedTokens: 40, OutputTokens: 5}, Cost: &price, Took: 1500 * time.Millisecond, Differences: wrong,
		}
	}
	astray := turn(Difference{kindPath, "expected support > billing, got support > tech"}, Difference{kindSays, "not said: \x1b[2Jrefund"})
	astray.Path, astray.Answered, astray.Decisions[0].Chosen = []string{"support", "tech"}, "tech", "tech"
	lost := turn(Difference{kindError, "unreachable: no route"}, Difference{kindPath, "expected support > billing, got support"})
	lost.Path, lost.Answered, lost.Said, lost.Error, lost.Decisions, lost.Cost = []string{"support"}, "", "", "unreachable", nil, nil
	outcome := func(name string, line, repeat int, t TurnOutcome) Outcome {
		return Outcome{Case: name, File: "cases/desk.yaml", Line: line, Tags: []string{"en"}, Repeat: repeat, Turns: []TurnOutcome{t}}
	}
	good := Results{Subject: "large", Outcomes: []Outcome{
		outcome("refund", 3, 1, turn()), outcome("refund", 3, 2, turn()),
		outcome("router\x1b[7m", 9, 1, turn()), outcome("router\x1b[7m", 9, 2, turn()),
	}}
	bad := Results{Subject: "small <b>|`", Outcomes: []Outcome{
		outcome("refund", 3, 1, turn()), outcome("refund", 3, 2, astray),
		outcome("router\x1b[7m", 9, 1, lost), outcome("router\x1b[7m", 9, 2, lost),
	}}
	bad.Outcomes[3].Differences = []Difference{{kindMax, "3 transfers, and at most 1 is allowed"}}
	return &Report{Cases: 2, Repeat: 2, Subjects: []Results{good, bad}}
}

// harmless fails on what drives a terminal or turns a line.
func harmless(t *testing.T, text string) {
	t.Helper()
	require.True(t, utf8.ValidString(text))
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\x00")
	require.NotContains(t, text, "\u202e")
	require.NotContains(t, text, "\r")
}

func TestJUnit(t *testing.T) {
	var out strings.Builder
	require.NoError(t, reported().JUnit(&out))
	harmless(t, out.String())

	type fault struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
	var got struct {
		XMLName                 xml.Name `xml:"testsuites"`
		Tests, Failures, Errors int      `xml:",attr"`
		Suites                  []struct {
			Name     string  `xml:"name,attr"`
			Tests    int     `xml:"tests,attr"`
			Failures int     `xml:"failures,attr"`
			Errors   int     `xml:"errors,attr"`
			Skipped  int     `xml:"skipped,attr"`
			Time     float64 `xml:"time,attr"`
			Cases    []struct {
				Name      string  `xml:"name,attr"`
				Classname string  `xml:"classname,attr"`
				File      string  `xml:"file,attr"`
				Line      int     `xml:"line,attr"`
				Time      float64 `xml:"time,attr"`
				Failure   []fault `xml:"failure"`
				Error     []fault `xml:"error"`
				Out       string  `xml:"system-out"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	d := xml.NewDecoder(strings.NewReader(out.String()))
	d.Strict = true
	require.NoError(t, d.Decode(&got))
	require.Len(t, got.Suites, 2)
	large, small := got.Suites[0], got.Suites[1]
	require.Equal(t, "large", large.Name)
	require.Equal(t, []int{4, 0, 0, 0}, []int{large.Tests, large.Failures, large.Errors, large.Skipped})
	require.InDelta(t, 6, large.Time, 1e-9)
	require.Equal(t, "small <b>|`", small.Name)
	require.Equal(t, []int{4, 1, 2, 0}, []int{small.Tests, small.Failures, small.Errors, small.Skipped})
	names := map[string]bool{}
	for _, s := range got.Suites {
		for _, c := range s.Cases {
			require.False(t, names[c.Classname+"/"+c.Name], c.Name)
			names[c.Classname+"/"+c.Name] = true
			require.LessOrEqual(t, len(c.Failure)+len(c.Error), 1)
		}
	}
	c := small.Cases[1]
	require.Equal(t, "refund #2", c.Name)
	require.Equal(t, "cases/desk.yaml", c.File)
	require.Equal(t, 3, c.Line)
	require.InDelta(t, 1.5, c.Time, 1e-9)
	require.Equal(t, "expected support > billing, got support > tech", c.Failure[0].Message)
	require.Equal(t, "path", c.Failure[0].Type)
	require.Equal(t, "turn 1: path: expected support > billing, got support > tech\nturn 1: says: not said: ␛[2Jrefund\ncases/desk.yaml:3", c.Failure[0].Text)
	require.Contains(t, c.Out, "Two charges.")
	require.Equal(t, "unreachable: no route", small.Cases[2].Error[0].Message)
	require.Equal(t, "error", small.Cases[2].Error[0].Type)
	require.Contains(t, small.Cases[3].Error[0].Text, "max: 3 transfers")

	one := &Report{Cases: 1, Repeat: 1, Subjects: []Results{{Subject: "s", Outcomes: []Outcome{{Case: "a", Repeat: 1}}}}}
	out.Reset()
	require.NoError(t, one.JUnit(&out))
	require.Contains(t, out.String(), `<testcase name="a" classname="s"`, "a case that is played once keeps its name")
}

func TestText(t *testing.T) {
	r := reported()
	kappa := 0.5
	r.Judge = &Agreement{Model: "judge\x1b[1m", Same: Wilson(9, 10), Kappa: &kappa, Wrongly: 1}
	var out strings.Builder
	require.NoError(t, r.Text(&out, nil))
	harmless(t, out.String())
	require.Equal(t, `FAIL cases/desk.yaml:3: refund (small <b>|`+"`"+`, 1 of 2 times)
     user: I was charged twice ␛[31m& <more>
       path: expected support > billing, got support > tech
       says: not said: ␛[2Jrefund
       tech said: Two charges.␀␛]0;owned␇ \u202e ]]> <b>

FAIL cases/desk.yaml:9: router␛[7m (small <b>|`+"`"+`, 2 of 2 times)
     user: I was charged twice ␛[31m& <more>
       error: unreachable: no route
       path: expected support > billing, got support

                                large                     small <b>|`+"`"+`
right agent at the end          4 of 4, 100 % (51–100 %)  1 of 4, 25 % (5–70 %)
… by the right agent            billing 4/4               billing 1/4
hops a turn                     1.00                      1.00
calls shown to the user         0 of 4, 0 % (0–49 %)      0 of 4, 0 % (0–49 %)
first hop right                 4 of 4, 100 % (51–100 %)  1 of 4, 25 % (5–70 %)
… chosen                        billing 4                 billing 1, tech 1
cases passed                    4 of 4, 100 % (51–100 %)  1 of 4, 25 % (5–70 %)
… by tag                        en 4/4                    en 1/4
… at times                      –                         1
paths right                     4 of 4, 100 % (51–100 %)  1 of 4, 25 % (5–70 %)
decisions right                 4 of 4, 100 % (51–100 %)  1 of 2, 50 % (9–91 %)
no words for the user           0 of 4                    2 of 4
errors                          0 of 4                    2 of 4 (unreachable 2)
questions to the model, a turn  2.00                      2.00
tokens of prompts, a turn       100                       100
tokens computed anew, a turn    60                        60
tokens of answers, a turn       5                         5
cost                            0.008                     –
seconds a turn, p50 and p95     1.5, 1.5                  1.5, 1.5

small <b>|`+"`"+`: what support decided, a row for who was right, a column for who was chosen
         support  billing  tech
support  –        –        –
billing  –        1        1
tech     –        –        –

The judge is judge␛[1m. On the labelled sample it agrees with people in 9 of 10, 90 % (60–98 %), Cohen's kappa 0.50; it took 1 for true that were not, and missed 0 that were.
`, out.String())

	out.Reset()
	require.NoError(t, r.Text(&out, func(style, text string) string { return "<" + style + ":" + text + ">" }))
	require.Equal(t, 2, strings.Count(out.String(), "<31:FAIL>"))

	r = &Report{Cases: 1, Repeat: 1, Subjects: []Results{{Subject: "s"}}, Judge: &Agreement{Model: "j"}}
	out.Reset()
	require.NoError(t, r.Text(&out, nil))
	require.Contains(t, out.String(), "agrees with people is unknown")
}

func TestMarkdown(t *testing.T) {
	var out strings.Builder
	require.NoError(t, reported().Markdown(&out))
	harmless(t, out.String())
	lines := strings.Split(out.String(), "\n")
	require.Equal(t, "| | large | small &lt;b>\\|\\` |", lines[0])
	require.Equal(t, "|---|---|---|", lines[1])
	require.Equal(t, "| right agent at the end | 4 of 4, 100 % (51–100 %) | 1 of 4, 25 % (5–70 %) |", lines[2])
	columns := func(line string) int { return strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") - 1 }
	for _, line := range lines {
		if strings.HasPrefix(line, "|") {
			want := 3
			if !strings.Contains(out.String()[:strings.Index(out.String(), line)+1], "decided") {
				require.Equal(t, want, columns(line), line)
			} else {
				require.Equal(t, 4, columns(line), line)
			}
		}
	}
	require.Contains(t, out.String(), "- cases/desk.yaml:3: refund (small &lt;b>\\|\\`, 1 of 2 times)\n  - path: expected support > billing, got support > tech\n")
	require.NotContains(t, out.String(), "<b>")
}
