package llm

// TokenCounter says how many tokens a text is for some model. It must be pure
// and safe for concurrent use. [EstimateTokens] is one that knows no model;
// package llm/tiktoken has exact ones for some.
type TokenCounter func(text string) int

// What a request costs beside its texts. The figures are those that OpenAI
// publishes for its chat format, rounded up; other formats are close to them.
const (
	// MessageTokens is the frame of one message with its role, and of the system
	// message.
	MessageTokens = 4
	// CallTokens is the frame of one tool call, or of one tool's description.
	CallTokens = 8
	// ReplyTokens opens the model's answer.
	ReplyTokens = 3
	// MediaTokens is the estimate for one image or file. It is a flat figure,
	// near that of a picture of a million pixels; what an endpoint really charges
	// depends on size and detail, and a long document is more.
	MediaTokens = 1000
)

// EstimateTokens says roughly how many tokens a text is, for a model that is not
// known, from its characters alone: four ASCII letters or spaces are a token, two
// digits, punctuation marks or letters of the European alphabets beyond ASCII,
// one character of any other script, half an emoji. For English prose, code and
// JSON the estimate is within a fifth of what the models of OpenAI count. Other
// languages may be half of it for newer models and twice as much for old ones;
// hashes and encoded bytes can be twice as much. It allocates nothing and is
// linear in the text.
func EstimateTokens(text string) int {
	quarters := 0
	for i := range len(text) {
		quarters += int(quartersOf[text[i]])
	}
	return (quarters + 3) / 4
}

// quartersOf is the weight, in quarters of a token, of a character by the first
// byte of its UTF-8 form. Other bytes of a character weigh nothing.
var quartersOf = func() (q [256]uint8) {
	for b := range q {
		switch {
		case b == ' ', 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z':
			q[b] = 1
		case b < 0x80:
			q[b] = 2
		case b < 0xC0: // inside a character
		case b < 0xD4: // up to U+04FF: Latin, Greek, Cyrillic
			q[b] = 2
		case b < 0xF0:
			q[b] = 4
		default: // beyond U+FFFF, emoji above all
			q[b] = 8
		}
	}
	return q
}()

// CountRequest returns the input tokens of a request as count sees its texts:
// system message, messages, tools, the schema of the answer, and their frames.
// A nil count is EstimateTokens. The ids of calls count nothing, because models
// do not read them. Reasoning counts in a message with calls: without any, few
// endpoints want it back, and their models do not read it.
func CountRequest(req *Request, count TokenCounter) int {
	n := ReplyTokens + CountTools(req.Tools, count)
	if count == nil {
		count = EstimateTokens
	}
	if req.System != "" {
		n += MessageTokens + count(req.System)
	}
	for i := range req.Messages {
		n += CountMessage(&req.Messages[i], count)
	}
	if f := req.ResponseFormat; f != nil {
		n += CallTokens + count(f.Name) + count(string(f.Schema))
	}
	return n
}

// CountMessage returns what one message adds to a request. A nil count is
// EstimateTokens.
func CountMessage(m *Message, count TokenCounter) int {
	if count == nil {
		count = EstimateTokens
	}
	n, thought := MessageTokens, "" // before a call
	if m.Text != "" {
		n += count(m.Text)
	}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case TextPart:
			n += count(p.Text)
		case Media:
			n += MediaTokens
		case ToolCall:
			n += CallTokens + count(p.Name) + count(p.Arguments) + count(thought)
			thought = ""
		case ToolResult:
			n += count(p.Output)
		case Reasoning:
			thought = p.Text
		}
	}
	return n
}

// CountTools returns what the descriptions of tools add to a request. A nil
// count is EstimateTokens.
func CountTools(tools []ToolSpec, count TokenCounter) int {
	if count == nil {
		count = EstimateTokens
	}
	n := 0
	for i := range tools {
		n += CallTokens + count(tools[i].Name) + count(tools[i].Description) + count(string(tools[i].Parameters))
	}
	return n
}
