// Pan and zoom of a drawing: a CSS transform of one HTML element, which costs no layout.
import { type Signal, signal } from "@preact/signals";

export interface Rect {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

const least = 0.1;
const most = 2;
/** How far a press moves before it is a drag, in pixels. */
const slack = 4;
/** The visible part is reported in steps of this many pixels of the drawing. */
const tile = 512;
/** How far the box can be scrolled to each side, which only the browser does; as in canvas.css. */
const margin = 60_000;

/** Moves one element inside of another. Sizes are those of the drawing, in its own pixels. */
export class PanZoom {
  /** The part of the drawing that must be in the document: a little more than the visible part. */
  readonly shown: Signal<Rect> = signal({ x: -tile, y: -tile, width: 4 * tile, height: 4 * tile });
  /** Whether the reader has moved the drawing, after which nothing else moves it far. */
  moved = false;
  private x = 0;
  private y = 0;
  private k = 1;
  private box: HTMLElement | undefined;
  private content: HTMLElement | undefined;
  private size = { width: 1, height: 1 };
  private room = { width: 0, height: 0 };
  private frame = 0;
  private rest: ReturnType<typeof setTimeout> | undefined;
  private readonly fingers = new Map<number, { x: number; y: number }>();
  private from: { x: number; y: number } | undefined;
  private dragging = false;

  /** Begins. The returned function ends it. */
  attach(box: HTMLElement, content: HTMLElement): () => void {
    this.box = box;
    this.content = content;
    const end = new AbortController();
    const on = <E extends Event>(type: string, does: (e: E) => void, options: AddEventListenerOptions = {}): void =>
      box.addEventListener(type, does as EventListener, { ...options, signal: end.signal });
    on<WheelEvent>("wheel", (e) => this.wheel(e), { passive: false });
    on<PointerEvent>("pointerdown", (e) => this.down(e));
    on<PointerEvent>("pointermove", (e) => this.drag(e));
    for (const type of ["pointerup", "pointercancel"]) on<PointerEvent>(type, (e) => this.up(e));
    // The end of a drag is no click.
    on<MouseEvent>("click", (e) => this.dragging && e.detail > 0 && (e.stopPropagation(), e.preventDefault()), { capture: true });
    // The browser scrolls to what has the focus or was searched for: the drawing moves instead.
    on("scroll", () => {
      const [x, y] = [margin - box.scrollLeft, margin - box.scrollTop];
      this.middle();
      if ((x !== 0 || y !== 0) && Math.abs(x) < margin && Math.abs(y) < margin) this.pan(x, y);
    });
    const sizes = new ResizeObserver(() => {
      const before = this.room.width;
      this.middle();
      this.room = { width: box.clientWidth, height: box.clientHeight };
      if (before === 0 || !this.moved) this.fit(this.floor);
      else this.draw();
    });
    sizes.observe(box);
    return () => {
      end.abort();
      sizes.disconnect();
      cancelAnimationFrame(this.frame);
    };
  }

  /** The least scale that the drawing begins with. */
  floor = 0.65;
  /** What is seen first of a drawing that is larger than its box. */
  home: Rect | undefined;

  /** Sets the size of the drawing. It is fitted until the reader moves it. */
  measure(width: number, height: number): void {
    if (this.size.width === width && this.size.height === height) return;
    this.size = { width, height };
    if (!this.moved) this.fit(this.floor);
  }

  zoom(by: number, at?: { readonly x: number; readonly y: number }): void {
    const k = Math.min(most, Math.max(least, this.k * by));
    const { x, y } = at ?? { x: this.room.width / 2, y: this.room.height / 2 };
    this.x = x - ((x - this.x) * k) / this.k;
    this.y = y - ((y - this.y) * k) / this.k;
    this.k = k;
    this.moved = true;
    this.draw();
  }

  pan(x: number, y: number): void {
    this.x += x;
    this.y += y;
    this.moved = true;
    this.draw();
  }

  /** Shows all of the drawing, but no smaller than a scale; a small one begins at the top. */
  fit(floor = least): void {
    const { size } = this;
    const { width: w, height: h } = this.room;
    if (w === 0) return;
    this.k = Math.max(floor, Math.min(1, w / size.width, h / size.height));
    const [width, height] = [size.width * this.k, size.height * this.k];
    const { x, y, width: hw, height: hh } = this.home ?? { x: 0, y: 0, width: 0, height: size.height };
    const to = (middle: number, room: number, all: number): number => Math.min(0, Math.max(room - all, room / 2 - middle * this.k));
    this.x = width > w ? to(x + hw / 2, w, width) : (w - width) / 2;
    this.y = height > h ? to(y + hh / 2, h, height) : Math.min(8, h - height);
    this.draw();
  }

  /** Moves the drawing no further than needed for a part of it to be seen. */
  show(part: Rect): void {
    const { k, room } = this;
    if (room.width === 0) return;
    this.x += nearer(part.x * k + this.x, part.width * k, room.width);
    this.y += nearer(part.y * k + this.y, part.height * k, room.height);
    this.draw();
  }

  private middle(): void {
    this.box!.scrollTo(margin, margin);
  }

  private wheel(e: WheelEvent): void {
    e.preventDefault();
    const unit = e.deltaMode === 1 ? 20 : 1;
    if (e.ctrlKey || e.metaKey) {
      const { left, top } = this.box!.getBoundingClientRect();
      this.zoom(Math.exp((-e.deltaY * unit) / 300), { x: e.clientX - left, y: e.clientY - top });
    } else if (e.shiftKey && e.deltaX === 0) this.pan(-e.deltaY * unit, 0);
    else this.pan(-e.deltaX * unit, -e.deltaY * unit);
  }

  private down(e: PointerEvent): void {
    if (e.button !== 0) return;
    this.fingers.set(e.pointerId, { x: e.clientX, y: e.clientY });
    if (this.fingers.size > 1) return;
    this.from = { x: e.clientX, y: e.clientY };
    this.dragging = false;
  }

  private drag(e: PointerEvent): void {
    const last = this.fingers.get(e.pointerId);
    if (last === undefined || this.from === undefined) return;
    if (!this.dragging && Math.hypot(e.clientX - this.from.x, e.clientY - this.from.y) < slack) return;
    if (!this.dragging) {
      this.dragging = true;
      this.box!.setPointerCapture(e.pointerId);
    }
    const other = [...this.fingers].find(([id]) => id !== e.pointerId)?.[1];
    if (other === undefined) this.pan(e.clientX - last.x, e.clientY - last.y);
    else {
      const { left, top } = this.box!.getBoundingClientRect();
      const before = Math.hypot(last.x - other.x, last.y - other.y);
      const after = Math.hypot(e.clientX - other.x, e.clientY - other.y);
      if (before > 0) this.zoom(after / before, { x: (e.clientX + other.x) / 2 - left, y: (e.clientY + other.y) / 2 - top });
    }
    this.fingers.set(e.pointerId, { x: e.clientX, y: e.clientY });
  }

  private up(e: PointerEvent): void {
    this.fingers.delete(e.pointerId);
  }

  private draw(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const { content, size, k } = this;
      const { width: w, height: h } = this.room;
      if (content === undefined || w === 0) return;
      // Something of the drawing always stays in sight.
      this.x = Math.min(w - 48, Math.max(48 - size.width * k, this.x));
      this.y = Math.min(h - 48, Math.max(48 - size.height * k, this.y));
      // The element has its own layer while it moves, and is drawn sharp when it stops.
      content.style.willChange = "transform";
      clearTimeout(this.rest);
      this.rest = setTimeout(() => (content.style.willChange = ""), 250);
      content.style.transform = `translate(${this.x}px, ${this.y}px) scale(${k})`;
      const seen = around({ x: -this.x / k, y: -this.y / k, width: w / k, height: h / k });
      const old = this.shown.peek();
      if (seen.x !== old.x || seen.y !== old.y || seen.width !== old.width || seen.height !== old.height) this.shown.value = seen;
    });
  }
}

function nearer(start: number, length: number, room: number): number {
  const border = 12;
  if (start < border || length > room - 2 * border) return border - start;
  return Math.min(0, room - border - start - length);
}

function around({ x, y, width, height }: Rect): Rect {
  const left = (Math.floor(x / tile) - 0.5) * tile;
  const top = (Math.floor(y / tile) - 0.5) * tile;
  return {
    x: left,
    y: top,
    width: (Math.ceil((x + width) / tile) + 0.5) * tile - left,
    height: (Math.ceil((y + height) / tile) + 0.5) * tile - top,
  };
}

export function meets(a: Rect, b: Rect): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}
