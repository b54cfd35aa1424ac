package access

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/agentarbor/arbor/session"
)

// CheckName returns an error if a text cannot be the name of an [Account]. People must be able to tell names apart in a
// list. A name has no spaces and no invisible characters, it is in the normal form NFKC, and its letters do not mix
// scripts that look alike, such as Latin and Cyrillic. It has no . or .. between slashes.
func CheckName(name string) error {
	odd := func(c rune) bool { return c == ' ' || c == unicode.ReplacementChar || !unicode.IsPrint(c) }
	path := "/" + strings.ReplaceAll(name, `\`, "/") + "/"
	mixed := 0
	for _, script := range []*unicode.RangeTable{unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Armenian, unicode.Cherokee} {
		if strings.ContainsFunc(name, func(c rune) bool { return unicode.Is(script, c) }) {
			mixed++
		}
	}
	switch {
	case session.CheckKey(session.Key{App: session.DefaultApp, User: name, ID: "a"}) != nil:
		return errors.New("a name must be 1 to 255 bytes of UTF-8, without NUL")
	case strings.ContainsFunc(name, odd):
		return errors.New("a name must not contain spaces or invisible characters")
	case strings.Contains(path, "/./") || strings.Contains(path, "/../"):
		return errors.New("a name must not contain . or .. between slashes")
	case !norm.NFKC.IsNormalString(name):
		return fmt.Errorf("a name must be in the normal form NFKC: write %.80q", norm.NFKC.String(name))
	case mixed > 1:
		return errors.New("a name must not mix letters of scripts that look alike, such as Latin and Cyrillic")
	}
	return nil
}

// Skeleton returns the same text for names that look alike, such as paul and pau1, or a Latin name and a Cyrillic one
// with the same shapes. It is the skeleton of Unicode Technical Standard 39, for common letters of Latin, Greek and
// Cyrillic. Two accounts of [Accounts] have different skeletons.
func Skeleton(name string) string { return skeletons().Replace(name) }

var skeletons = sync.OnceValue(func() *strings.Replacer {
	pairs := []string{"rn", "m", "vv", "w"}
	for shape, others := range map[string]string{
		"l": "1I|ІӀΙ", "O": "0ОΟ", "o": "оοօ", "a": "аα", "e": "е", "p": "рρ", "c": "сϲ", "x": "х", "y": "уγ", "i": "іι", "j": "ј", "s": "ѕ", "h": "һ",
		"d": "ԁ", "q": "ԛ", "w": "ԝ", "v": "ν", "k": "кκ", "u": "υ", "A": "АΑ", "B": "ВΒ", "C": "СϹ", "E": "ЕΕ", "H": "НΗ", "J": "Ј", "K": "КΚ", "M": "МΜ",
		"N": "Ν", "P": "РΡ", "S": "Ѕ", "T": "ТΤ", "X": "ХΧ", "Y": "ҮΥ", "Z": "Ζ",
	} {
		for _, c := range others {
			pairs = append(pairs, string(c), shape)
		}
	}
	return strings.NewReplacer(pairs...)
})
