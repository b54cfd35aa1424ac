// Reads a JSON array of Mermaid texts and prints what Mermaid understands of each: its
// nodes, edges and subgraphs, with the texts that a reader sees.
import { readFileSync } from 'node:fs'
import { JSDOM } from 'jsdom'

const { window } = new JSDOM('')
globalThis.window = window
globalThis.document = window.document
const { default: mermaid } = await import('mermaid')
const { marked } = await import('marked')
mermaid.initialize({ startOnLoad: false })

// shown does what Mermaid does to a text when it draws it: Markdown, in which it knows
// paragraphs alone, then its own signs for characters, then HTML, then a few marks of
// its own.
function shown(text) {
  for (const block of marked.lexer((text ?? '').replace(/<br\s*\/?>/gi, '\n'))) {
    if (block.type !== 'paragraph' && block.type !== 'space') return `Markdown: ${block.type}`
    for (const part of block.tokens ?? []) {
      if (part.type !== 'text') return `Markdown: ${part.type}`
    }
  }
  const html = document.createElement('p')
  html.innerHTML = (text ?? '').replace(/ﬂ°°/g, '&#').replace(/ﬂ°/g, '&').replace(/¶ß/g, ';')
  for (const br of html.querySelectorAll('br')) br.replaceWith('\n')
  if (html.children.length > 0) return `HTML: ${html.innerHTML}`
  const mark = /\\n|fa[bklrs]?:fa-|\$\$|ﬂ°|¶ß/.exec(html.textContent)
  if (mark) return `Mermaid: ${mark[0]}`
  return html.textContent.replaceAll('\u2060', '')
}

const out = []
for (const text of JSON.parse(readFileSync(0, 'utf8'))) {
  try {
    const { db } = await mermaid.mermaidAPI.getDiagramFromText(text)
    out.push({
      nodes: Object.fromEntries([...db.getVertices()].map(([id, v]) => [id, shown(v.text)])),
      edges: db.getEdges().map((e) => ({ from: e.start, to: e.end, text: shown(e.text), stroke: e.stroke })),
      subgraphs: Object.fromEntries(db.getSubGraphs().map((g) => [g.id, { title: shown(g.title), nodes: g.nodes }])),
    })
  } catch (e) {
    out.push({ error: String(e) })
  }
}
process.stdout.write(JSON.stringify(out))
