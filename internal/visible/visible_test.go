package visible

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":     "plain\ttext\n",
		"a\r\nb\rc":         "a\nbc",
		"\x1b[31mred\x00":   "␛[31mred␀",
		"\x7f\u009b31m\x80": `␡\u009b31m` + "\ufffd",
		"\xe2\x80":          "\ufffd\ufffd",
		"שלום \u200f\u202ex\u2066y\u2069\u061c\u200e": `שלום \u200f\u202ex\u2066y\u2069\u061c\u200e`,
		"pass\u200bword\u2060\ufeff":                  `pass\u200bword\u2060\ufeff`,
		"pay\u200dpal, pay\u200cpal, pay\u00adpal":    `pay\u200dpal, pay\u200cpal, pay\u00adpal`,
		"a\U000e0041\U000e007f":                       `a\U000e0041\U000e007f`,
		"\u200da\u200d":                               `\u200da\u200d`,
		"می\u200cخواهم":                               "می\u200cخواهم",
		"می\u200c\u200cخواهم":                         `می\u200c\u200cخواهم`,
		"می\u200cx":                                   `می\u200cx`,
		"क्\u200dष क्\u200c ශ්\u200dරී":               "क्\u200dष क्\u200c ශ්\u200dරී",
		"👩\u200d🔬👨🏽\u200d🚀 🏳\ufe0f\u200d🌈 1\ufe0f\u20e3 ❤\ufe0f ℹ\ufe0f": "👩\u200d🔬👨🏽\u200d🚀 🏳\ufe0f\u200d🌈 1\ufe0f\u20e3 ❤\ufe0f ℹ\ufe0f",
		"👩\u200dx 👩\u200d\u200d🔬":                        `👩\u200dx 👩\u200d\u200d🔬`,
		"100\ufe0f a\ufe01 ❤\ufe0f\ufe0f":                `100\ufe0f a\ufe01 ❤` + "\ufe0f" + `\ufe0f`,
		"葛\U000e0100城 a\U000e0100 葛\U000e0100\U000e0101": "葛\U000e0100" + `城 a\U000e0100 葛` + "\U000e0100" + `\U000e0101`,
		"\ufff9see\ufffahidden\ufffb":                    `\ufff9see\ufffahidden\ufffb`,
		"a\u2028b\u3164\u034f":                           `a\u2028b\u3164\u034f`,
	} {
		require.Equal(t, want, Text(in))
		if utf8.ValidString(in) { // however it comes
			var s Stream
			got := ""
			for _, r := range in {
				got += s.Next(string(r))
			}
			require.Equal(t, want, got+s.End())
		}
	}
	require.Equal(t, "a b ␛", Line(" a\n\r\n b\t\x1b "))
	var s Stream
	require.Equal(t, "👩 is 👩\u200d🔬", s.Next("👩 is 👩\u200d")+s.Next("🔬")+s.End())
	require.Equal(t, `a\u200d`, s.Next("a\u200d")+s.End())
}

func TestJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"b"}`:                     `{"a":"b"}`,
		"{\r\n\t\"a\": \"\u009b\x7f\"}": "{\r\n\t\"a\": \"\\u009b\\u007f\"}",
		"\"\u202e\U000e0041 👩\u200d🔬\"": "\"\\u202e\\udb40\\udc41 👩\u200d🔬\"",
		"\"\x80\"":                      `"\ufffd"`,
	} {
		require.Equal(t, want, string(JSON([]byte(in))))
	}
}

func TestArguments(t *testing.T) {
	for in, want := range map[string][]string{
		`{}`:            {""},
		`{"a":1e3}`:     {"a: 1e3"},
		`"just words"`:  {`"just words"`},
		"no \x1b\nJSON": {`"no \u001b\n"`, `"JSON"`},
		`{"to":"bob","note":"first  line\n\tapprove? y\n","x y\n":null}`: {
			`to: "bob"`, `note: "first  line\n"`, `      "\tapprove? y\n"`, `"x y\n": null`},
		`{"list":[1,{"deep":{}},[]],"ok":true}`:            {"list: [", "  1,", "  {", `    "deep": {}`, "  },", "  []", "]", "ok: true"},
		"{\"a\":\"\\u0072m \u202e \u00a0 \\u001b[2J\\r\"}": {`a: "rm \u202e \u00a0 \u001b[2J\r"`},
	} {
		require.Equal(t, want, Arguments(json.RawMessage(in)), in)
	}
	line, whole := Inline(json.RawMessage(`{"z":"  last","a":[1,{"b":2}],"n":null}`))
	require.True(t, whole)
	require.Equal(t, `z="  last", a=[1, {"b": 2}], n=null`, line)
	for _, long := range []string{`{"a":"x\ny"}`, `{"a":"` + strings.Repeat("x", 200) + `"}`, `no JSON`} {
		_, whole = Inline(json.RawMessage(long))
		require.False(t, whole, long)
	}
}

func TestWrap(t *testing.T) {
	require.Equal(t, []string{"| 12345678", ": 90", "| 日本語漢", ": 字", "| "}, Wrap([]string{"1234567890", "日本語漢字", ""}, "| ", ": ", 10))
	require.Equal(t, []string{"| " + strings.Repeat("x", 500)}, Wrap([]string{strings.Repeat("x", 500)}, "| ", ": ", 0))
}

// FuzzVisible: nothing that drives a terminal comes through, JSON stays what it is, and
// arguments are shown whole, whatever they hold.
func FuzzVisible(f *testing.F) {
	for _, s := range []string{"a\x1b[2J\u009b\xff\r\n", "👩\u200d🔬", `{"a":"\n\"approve? y"}`, "\u200d\u202e\U000e0001", "{\"a\":[[{\"\":\"\u00a0\"}]]}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		safe := func(text string) {
			require.True(t, utf8.ValidString(text))
			require.NotContains(t, text, "\u202e")
			for _, r := range text {
				require.False(t, unicode.IsControl(r), "%q", text)
			}
		}
		for _, line := range strings.Split(strings.ReplaceAll(Text(s), "\t", " "), "\n") {
			safe(line)
		}
		safe(Line(s))
		quoted, err := json.Marshal(s)
		require.NoError(t, err)
		var want, got string
		require.NoError(t, json.Unmarshal(quoted, &want))
		require.NoError(t, json.Unmarshal(JSON(quoted), &got))
		require.Equal(t, want, got)

		lines := Arguments(json.RawMessage(s))
		for _, line := range lines {
			safe(line)
		}
		whole := ""
		for _, line := range Arguments(quoted) {
			safe(line)
			var piece string
			require.NoError(t, json.Unmarshal([]byte(strings.TrimSpace(line)), &piece), line)
			whole += piece
		}
		require.Equal(t, want, whole)
		for _, row := range Wrap(lines, "| ", ": ", 20) {
			require.True(t, strings.HasPrefix(row, "| ") || strings.HasPrefix(row, ": "))
			require.LessOrEqual(t, utf8.RuneCountInString(row), 20)
		}
	})
}

func TestCut(t *testing.T) {
	require.Equal(t, "é…", Cut("éab", 2))
	require.Equal(t, "éab", Cut("éab", 3))
	require.Equal(t, "é … é", CutMiddle("éaaaé", 4))
	require.Equal(t, "éaé", CutMiddle("éaé", 5))
}

func FuzzCut(f *testing.F) {
	f.Add("a\x1b[2J\u009b\xff\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		require.NotContains(t, Line(s), "\n")
		require.LessOrEqual(t, utf8.RuneCountInString(Cut(s, 5)), 5)
	})
}
