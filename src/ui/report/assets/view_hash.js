// The view in the page's address, so that a link or a reload shows it again:
//
//   report.html#breakdown&iteration=3&from=1200000&to=3400000&open=0.3.0&y=1800
//   what-if.html#configurations&connections=16
//
// First a section, where one is looked at; then what is not as the page opens it; last how far the page is
// scrolled, where that is at no section.
"use strict";

function read_hash() {
  const out = {};
  for (const part of location.hash.slice(1).split("&")) {
    const [key, value] = part.split("=");
    try {
      if (value !== undefined) out[decodeURIComponent(key)] = decodeURIComponent(value);
      else if (key) out.section = key;
    } catch (malformed) {
      continue;  // a "%" that begins nothing
    }
  }
  return out;
}

const kSectionNear = 40;  // pixels between a section and the top of the window where it is looked at

// Writes what read() says, null for what is as the page opens it, and has show() set what an address says.
function keep_view_in_hash(read, show) {
  let timer = 0;
  const sections = [...document.querySelectorAll("main section[id]")];
  const scrolled = () => {
    if (scrollY < 4) return {};
    const near = sections.find((section) => Math.abs(section.getBoundingClientRect().top) < kSectionNear);
    return near ? {section: near.id} : {y: Math.round(scrollY)};
  };
  const write = () => {
    const {section, y} = scrolled();
    const parts = Object.entries({...read(), y}).filter(([, value]) => value != null)
      .map(([key, value]) => `${encodeURIComponent(key)}=${encodeURIComponent(value).replaceAll("%2C", ",")}`);
    const hash = [...(section ? [section] : []), ...parts].join("&");
    if (hash !== location.hash.slice(1)) history.replaceState(history.state, "", "#" + hash);
  };
  const changed = () => {
    clearTimeout(timer);
    timer = setTimeout(write, 250);
  };
  const scroll_to = ({section, y}) => {
    const at = section && document.getElementById(section);
    if (at) at.scrollIntoView({behavior: "instant"});
    else if (y) scrollTo({top: Number(y), behavior: "instant"});
  };
  // A section's link alone moves the page and leaves the view; charts find their size within two frames.
  const restore = () => requestAnimationFrame(() => requestAnimationFrame(() => scroll_to(read_hash())));
  addEventListener("hashchange", () => {
    const asked = read_hash();
    if (Object.keys(asked).some((key) => key !== "section")) {
      show(asked);
      restore();
    }
    changed();
  });
  addEventListener("scroll", changed, {passive: true});
  if (location.hash.length > 1) {
    history.scrollRestoration = "manual";
    restore();
  }
  return {changed};
}
