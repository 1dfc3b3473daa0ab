"use strict";
// Sorts and filters the examples; without it they all stand in the order of the table.
(() => {
  const form = document.querySelector(".controls");
  if (!form) return;
  const place = document.querySelector("#examples .cards");
  const more = document.querySelector(".more");
  const status = form.querySelector("output");
  const cards = [...place.children];
  const step = 24;
  let most = step;
  const number = (card, name) => Number(card.dataset[name]) || 0;
  const orders = {
    order: () => 0,
    size: (a, b) => Math.abs(number(b, "contribution")) - Math.abs(number(a, "contribution")),
    contribution: (a, b) => number(b, "contribution") - number(a, "contribution"),
    "-contribution": (a, b) => number(a, "contribution") - number(b, "contribution"),
    "-difference": (a, b) => number(b, "difference") - number(a, "difference"),
  };
  const fits = (card, wanted) =>
    ["captioner", "row", "class", "chosen"].every((name) => !wanted[name] || card.dataset[name] === wanted[name]) &&
    (!wanted.task || card.dataset.tasks.split("|").includes(wanted.task));
  const show = () => {
    const wanted = Object.fromEntries([...form.querySelectorAll("select")].map((one) => [one.name, one.value]));
    const found = cards.filter((card) => fits(card, wanted)).sort(orders[wanted.sort]);
    cards.forEach((card) => (card.hidden = true));
    found.forEach((card, at) => {
      card.hidden = at >= most;
      place.append(card);
    });
    status.textContent = `${Math.min(most, found.length)} of ${found.length} examples shown`;
    more.hidden = found.length <= most;
  };
  form.addEventListener("change", () => {
    most = step;
    show();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => {
    most += step;
    show();
  });
  addEventListener("beforeprint", () => {
    most = Infinity;
    show();
  });
  addEventListener("afterprint", () => {
    most = step;
    show();
  });
  form.hidden = false;
  show();
})();
