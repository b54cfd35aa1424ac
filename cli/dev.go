package cli

import (
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"
)

// devKeeps is how much memory dev gives to requests as they were sent, in bytes.
const devKeeps = 32 << 20

func (p *program) devCommand() *cobra.Command {
	how, shut := &serving{keep: devKeeps}, false
	cmd := p.withPath(&cobra.Command{
		Short: "Serve the tree while you work on it, and open its page in a browser",
		Long: `Serves the tree as serve does, keeps the last requests to models, and opens the page in
a browser. When you save files of the tree, the next turn uses them, and a running turn
ends with the old ones. If the files have problems, the command and the page report
them, and the tree stays as it was.

Without a terminal or a display, no browser is opened; standard error has the address.`,
	}, "dev", 0, func(cmd *cobra.Command, path string, _ []string) error {
		how.open = !shut
		return p.serve(cmd.Context(), path, how)
	})
	p.serveFlags(cmd.Flags(), how)
	cmd.Flags().BoolVar(&shut, "no-open", false, "do not open a browser")
	return cmd
}

// openPage opens an address in a browser, if that is wanted, somebody is there, and has one.
func (p *program) openPage(how *serving, address string) {
	if !how.open || !isTerminal(p.Stderr) {
		return
	}
	var words []string
	switch runtime.GOOS {
	case "windows":
		words = []string{"rundll32", "url.dll,FileProtocolHandler"}
	case "darwin":
		words = []string{"open"}
	default:
		if p.Getenv("DISPLAY") == "" && p.Getenv("WAYLAND_DISPLAY") == "" {
			return
		}
		words = []string{"xdg-open"}
	}
	cmd := exec.Command(words[0], append(words[1:], address)...)
	apart(cmd)
	if err := cmd.Start(); err != nil {
		p.say("no browser was opened: %s", err)
		return
	}
	go func() {
		if err := cmd.Wait(); err != nil {
			p.say("no browser was opened: %s: %s", words[0], err)
		}
	}()
}
