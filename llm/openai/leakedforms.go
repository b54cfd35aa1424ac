package openai

import (
	"slices"
	"strings"
	"sync"

	"github.com/agentarbor/arbor/internal/lazyregexp"
)

// leakedForms are the ways in which models write calls as text. They are those that the parsers of vLLM and of
// llama.cpp read, and what small models make of them. A row is a form. Its parts are separated by spaces, and white
// space may be between them in an answer:
//
//	call          a call as a JSON object
//	bare          a name that is a call by itself
//	name          the name of a tool
//	object        its arguments as a JSON object; the call is whole after it
//	(             its arguments in Python, with both parentheses; the call is whole after it
//	key, value    an argument; each ends where the next part of the row begins
//	end           the call is whole here
//	others        the rest of the answer, which the model has made up for others; it is dropped, but without a call before it
//	              only if the mark is a token, if no text of the conversation contains it, and where the answer may be at its end
//	{ }           what is between them, any number of times
//	mark?         may be missing
//	mark … mark   any of the forms, between two marks
//	mark          any other text; · is a space in it, \{ and \} are braces, @ is each of the tagSpaces,
//	              ⟨a,b⟩ each of the words in it, and ⟨⟩ the same word again
//
// A mark of more than one byte that ends a form may be missing at the end of the answer.
const leakedForms = `
call { ; call }
[ call { , call } ]
\{ "role"? :? "assistant"? ,? "content"? :? null? ""? ,? "tool_calls" : [ call { , call } ] \}
\{ "tool_call" : call \}
\{ "function_call" : call \}
name (
name [ARGS]? ` + fence + `json? object ` + fence + `?
print( name ( )
[ name ( { , name ( } ]
bare
<⟨tool_call,tools,function_call,functioncall,tool_code,longcat_tool_call,dots_function_call,minimax:tool_call,tool_use⟩> … </⟨⟩>
<⟨xai:function_call,seed:tool_call,ifm|tool_calls,ifm|tool_call,tool_calls:opensource,tool_calls:6124c78e⟩> … </⟨⟩>
<@tool_calls> … </@tool_calls>
<@function_calls> … </@function_calls>
<｜｜DSML｜｜·calls> … </｜｜DSML｜｜·calls>
<·|·DSML·|·tool_use> … </·|·DSML·|·tool_use>
[TOOL_REQUEST] … [END_TOOL_REQUEST]
[TOOL_CALL] … [/TOOL_CALL]
<TOOLCALL> … </TOOLCALL>
]<]minimax[>[<tool_call> … ]<]minimax[>[</tool_call>
<｜tool▁calls▁begin｜> … <｜tool▁calls▁end｜>
<｜tool_calls_begin｜> … <｜tool_calls_end｜>
<|tool_calls_section_begin|> … <|tool_calls_section_end|>
<|tool_call|> … <|/tool_call|>
<|⟨tool_call,action,python⟩_start|> … <|⟨⟩_end|>
<|START_ACTION|> … <|END_ACTION|>
[unused11] … [unused12]
<|python_tag|> … <|eom_id|>
` + fence + `tool_code … ` + fence + `
[TOOL_CALLS]
**Tool·Call:**
functools
tool_code
Action:
<|start_header_id|>assistant<|end_header_id|>
<|open|>tools<|sep|> … <|close|>tools<|sep|>
<|plamo:begin_tool_requests:plamo|> … <|plamo:end_tool_requests:plamo|>
<|close|>message<|sep|>
function·call<|role_sep|>
<|⟨eom_id,eot_id,im_end,end,call,return,eot,end_of_text,endoftext,END_OF_TURN_TOKEN,plugin,tool_calls,message_sep⟩|>
<⟨end_of_turn,eos⟩>
<｜end▁of▁sentence｜>
</s>
<|⟨observation,user⟩|> others
<|im_start|>⟨user,system,tool⟩ others
<start_of_turn>user others
<|start_header_id|>⟨user,system,ipython⟩ others
<｜User｜> others
<｜tool▁outputs▁begin｜> others
<tool_response> others
<start_function_response> others
Observation: others
[TOOL_RESULTS] others
[TOOL_CALL] \{ tool => " name " ,? args => \{ { -- key ·" value " } \} \} [/TOOL_CALL] end
[TOOL_CALLS] name [ARGS]? object
[TOOL_CALLS] name [CALL_ID] key [ARGS] object
>>> name object
Action: name Action·Input: object
<|from|>assistant <|recipient|> name <|content|> object
<tool_call⟨,:opensource,:6124c78e⟩> name <tool_sep⟨⟩>? { <arg_key⟨⟩> key </arg_key⟨⟩> <arg_value⟨⟩> value </arg_value⟨⟩> } </tool_call⟨⟩> end
<tool_call> function name object </tool_call>
<⟨iquestcoder,iquest⟩_tool_call> name { <arg_key> key </arg_key> <arg_value> value </arg_value> } </⟨⟩_tool_call> end
<longcat_tool_call> name { <longcat_arg_key> key </longcat_arg_key> <longcat_arg_value> value </longcat_arg_value> } </longcat_tool_call> end
<function= name > object </function>
<function= name > { <parameter= key > value </parameter> } </function> end
<tool_call> <function= name > { <parameter= key > value </parameter> } </tool_call> end
<function= name > { <parameter·name=" key "> value </parameter> } </function> end
<function=" name "> { <parameter=" key "> value </parameter> } </function> end
<⟨function,tool_call⟩·name=" name "> object </⟨⟩>
<⟨function,tool_call,xai:function_call⟩·name=" name "> { <parameter·name=" key "> value </parameter> } </⟨⟩> end
<function·name=" name "> { <param·name=" key "> value </param> } </function> end
<⟨tool_call,tool_use⟩> <name> name </name> <arguments> object </arguments> </⟨⟩>
<|open|>call·tool=" name "·index=" key "<|sep|> { <|open|>argument·key=" key "·type=" string? number? integer? boolean? object? array? null? "<|sep|> value <|close|>argument<|sep|> } <|close|>call<|sep|> end
<|open|>call·tool=" name "·index=" key "<|sep|> <|open|>json·type="object"<|sep|> object <|close|>json<|sep|> <|close|>call<|sep|>
<|tools_prefix|> [ \{ " name ": object \} { , \{ " name ": object \} } ] <|tools_suffix|>
<@invoke·name=" name "> { <@parameter·name=" key " string="true"? string="false"? > value </@parameter> } </@invoke> end
<@invoke·name=" name "> object </@invoke>
<invoke·name=" name "> { < key > value </ key > } </invoke> end
]<]minimax[>[<invoke·name=" name "> { ]<]minimax[>[< key > value ]<]minimax[>[</ key > } ]<]minimax[>[</invoke> end
<｜tool_call_begin｜> function? <｜tool_sep｜> <steptml:invoke·name=" name "> { <steptml:parameter·name=" key "> value </steptml:parameter> } </steptml:invoke> end <｜tool_call_end｜>
<｜tool▁call▁begin｜> function? <｜tool▁sep｜>? name <｜tool▁sep｜>? ` + fence + `json? object ` + fence + `? <｜tool▁call▁end｜>
<|tool_call:begin|> key <|tool_call:name|> name <|tool_call:args|> object <|tool_call:end|>
<|tool_call:start|> name { <|tool_arg:start|> key <|tool_arg:value|> value <|tool_arg:end|> } <|tool_call:end|> end
<|message_model|> name <|content_invoke_tool_json|> call <|end_message|>
<|content_invoke_tool_json|> call <|end_message|>
<|tool_call_begin|> name <|tool_call_argument_begin|> object <|tool_call_end|>
<ifm|tool_call> name { <ifm|arg_key> key </ifm|arg_key> <ifm|arg_value> value </ifm|arg_value> } </ifm|tool_call> end
<|plamo:begin_tool_request:plamo|> <|plamo:begin_tool_name:plamo|> name <|plamo:end_tool_name:plamo|> <|plamo:begin_tool_arguments:plamo|> <|plamo:constrain|>? json? <|plamo:msg|>? object <|plamo:end_tool_arguments:plamo|> <|plamo:end_tool_request:plamo|>
<start_function_call>call: name \{ { key :<escape> value <escape> ,? } \} <end_function_call> end
<|tool_call>call: name \{ { key :<|"|> value <|"|> ,? } \} <tool_call|> end
<start_function_call>call: name object <end_function_call>
<|tool_call>? call: name object <tool_call|>?
<|tool_call>call: name ( <tool_call|>
<⟨call,function⟩: name object />
<tool: key > name object </tool>
to= name json? code? object
<|start|>assistant? <|channel|> commentary? analysis? final? <|constrain|>? json? to= name <|constrain|>? json? code? <|message|> object
<|start|>assistant? to= name <|channel|> commentary? analysis? <|constrain|>? json? code? <|message|> object
assistant? commentary to= name json? code? object
assistant to= name commentary? analysis? json? code? object
`

const fence = "```"

// tagSpaces are the prefixes of the names of tags: none, or a namespace of DeepSeek, Claude, GigaChat or MuseGlimmer.
var tagSpaces = [...]string{"", "｜DSML｜", "antml:", "｜GCML｜", "atem:", "｜｜DSML｜｜", "‖DSML‖", "｜｜DSML｜｜·", "·|·DSML·|·"}

// groups matches the words of which each makes a form.
var groups = lazyregexp.New(`⟨([^⟩]+)⟩`)

// part is one part of a form.
type part struct {
	kind     string // one of partKinds, or of the other kinds that partKinds describes
	text     string // the text of a mark
	jump     int    // for { and }: the index of the other one
	optional bool
	last     bool // the answer may end here
}

// partKinds are the parts of a row that are not marks. The other kinds are mark; info, open and close for forms that
// enclose forms; and over for the end of each form.
const partKinds = " call bare name object ( key value end others { } "

type form struct {
	parts  []part
	begins string // the possible first bytes; "" means those of any name
	python bool
	loose  bool   // it starts without a mark
	rare   bool   // its first mark is a single token of a model
	glm    bool   // it is GLM's, which also writes it directly after a sentence
	others bool   // its mark begins what the model has made up for others
	calls  bool   // it is a call, or encloses calls
	mark   string // the mark at its end, "" if it ends without one
}

var forms = sync.OnceValue(func() (all []*form) {
	rows := strings.Split(strings.TrimSpace(leakedForms), "\n")
	for i := 0; i < len(rows); i++ {
		row := rows[i]
		place, names := "@", tagSpaces[:]
		if g := groups.Get().FindStringSubmatch(row); g != nil {
			row, place, names = strings.Replace(row, g[0], "⟨⟩", 1), "⟨⟩", strings.Split(g[1], ",")
		}
		if strings.Contains(row, place) {
			for _, name := range names {
				rows = append(rows, strings.ReplaceAll(row, place, name))
			}
			continue
		}
		if ascii := strings.ReplaceAll(row, "｜", "|"); ascii != row { // gateways change the bars
			rows = append(rows, ascii)
		}
		open, end, encloses := strings.Cut(row, " … ")
		if encloses {
			open, end = strings.ReplaceAll(open, "·", " "), strings.ReplaceAll(end, "·", " ")
			all = append(all, formOf(part{kind: "mark", text: open}, part{kind: "open", text: end}),
				formOf(part{kind: "mark", text: end}, part{kind: "close", text: end}))
			continue
		}
		var parts []part
		var loops []int
		for _, word := range strings.Fields(row) {
			p := part{kind: word}
			switch {
			case word == "{":
				loops = append(loops, len(parts))
			case word == "}":
				p.jump = loops[len(loops)-1]
				parts[p.jump].jump, loops = len(parts), loops[:len(loops)-1]
			case !strings.Contains(partKinds, " "+word+" "):
				p.kind = "mark"
				p.text, p.optional = strings.CutSuffix(strings.ReplaceAll(strings.TrimPrefix(word, `\`), "·", " "), "?")
			}
			parts = append(parts, p)
		}
		all = append(all, formOf(parts...))
	}
	return append(all, formOf(part{kind: "mark", text: fence}, part{kind: "info"}))
})

// turnsOfOthers returns the marks of the forms that end in others.
var turnsOfOthers = sync.OnceValue(func() (marks []string) {
	for _, f := range forms() {
		if f.others {
			marks = append(marks, f.parts[0].text)
		}
	}
	return marks
})

// isToken reports whether a text begins with a token of a model's template.
func isToken(text string) bool {
	return slices.ContainsFunc([]string{"<|", "<｜", "<‖", "< |", "]<]", "<end_of_turn>", "<start_of_turn>", "<eos>", "<tool_calls:", "<tool_call:"}, func(token string) bool { return strings.HasPrefix(text, token) })
}

func formOf(parts ...part) *form {
	f := &form{parts: append(parts, part{kind: "over", last: true})}
	for i := len(parts) - 1; i >= 0; i-- {
		p := &f.parts[i]
		p.last = p.kind == "info" || p.kind == "others" || p.kind == "mark" && (p.optional || len(p.text) > 1) && f.parts[i+1].last
		f.python = f.python || p.kind == "("
		f.others = f.others || p.kind == "others"
		f.glm = f.glm || strings.HasPrefix(p.text, "<arg_key")
	}
	f.calls = len(parts) > 1 && !f.others
	end := parts[len(parts)-1]
	if end.kind == "end" {
		end = parts[len(parts)-2]
	}
	if f.calls && end.kind != "open" && len(end.text) > 1 && end.text != fence {
		f.mark = end.text
	}
	first := &f.parts[0]
	f.loose = first.kind == "name" || first.text == "print("
	f.rare = isToken(first.text) || strings.HasPrefix(first.text, "[TOOL_")
	if first.kind == "call" {
		f.begins = "{"
	}
	for i := 0; f.parts[i].kind == "mark"; i++ {
		if f.begins += f.parts[i].text[:1]; !f.parts[i].optional {
			break
		}
	}
	return f
}
