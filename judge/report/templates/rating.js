"use strict";
// Shows one item after another, takes answers, and saves them as CSV.
(() => {
  const sheet = JSON.parse(document.getElementById("sheet").textContent);
  const at = (name) => document.getElementById(name);
  const form = document.querySelector(".rating");
  const rater = at("rater");
  const told = at("told");
  const key = `caption-judge-rating-${sheet.name}`;
  let answers = {}; // item -> question -> answer
  let place = 0;
  let current = 0; // the question that the number keys answer
  let pointed = false; // whether the last action was by pointer: arrow keys move between answers without going on
  let unsaved = false;
  let kept = true;

  const remember = () => {
    try {
      localStorage.setItem(key, JSON.stringify({ answers, place, rater: rater.value }));
    } catch {
      kept = false;
    }
    at("kept").textContent = kept
      ? "Answers are kept in this browser until they are cleared."
      : "This browser does not keep answers: save them before you close the page.";
  };
  const recall = () => {
    try {
      const found = JSON.parse(localStorage.getItem(key) || "{}");
      answers = found.answers || {};
      rater.value = found.rater || "";
      place = Math.min(Math.max(0, Number(found.place) || 0), sheet.items.length - 1);
    } catch {
      answers = {};
    }
  };

  const of = (item) => answers[item.name] || {};
  const asked = (question, given) => !question.after || given[question.after[0]] === question.after[1];
  const done = (item) => sheet.questions.every((question) => !asked(question, of(item)) || of(item)[question.name]);
  const fields = () => [...at("questions").children];

  const choice = (question, text, number) => {
    const label = document.createElement("label");
    const input = Object.assign(document.createElement("input"), { type: "radio", name: question.name, value: text });
    const hint = document.createElement("kbd");
    hint.textContent = String(number + 1);
    hint.hidden = number > 8;
    hint.setAttribute("aria-hidden", "true");
    label.append(input, hint, document.createTextNode(text));
    input.addEventListener("change", () => {
      answer(sheet.questions.indexOf(question), text);
      if (pointed) goOn();
    });
    return label;
  };
  const build = () => {
    for (const question of sheet.questions) {
      const field = document.createElement("fieldset");
      const legend = document.createElement("legend");
      const choices = document.createElement("div");
      legend.textContent = question.text;
      choices.className = "choices";
      choices.append(...question.choices.map((text, number) => choice(question, text, number)));
      field.append(legend, choices);
      at("questions").append(field);
    }
  };

  const show = () => {
    const item = sheet.items[place];
    const given = of(item);
    at("place").textContent = `Item ${place + 1} of ${sheet.items.length}`;
    at("text").textContent = item.text;
    at("text").hidden = !item.text;
    at("picture").hidden = !item.picture;
    if (item.picture) at("picture").src = `data:image/jpeg;base64,${item.picture}`;
    fields().forEach((field, number) => {
      const question = sheet.questions[number];
      field.disabled = !asked(question, given);
      field.classList.toggle("current", number === current && sheet.questions.length > 1);
      for (const input of field.querySelectorAll("input")) input.checked = given[question.name] === input.value;
    });
    const count = sheet.items.filter(done).length;
    at("progress").value = count;
    at("count").textContent = `${count} of ${sheet.items.length}`;
    at("back").disabled = place === 0;
    at("next").textContent = done(item) ? "Next" : "Next without an answer";
    remember();
  };
  const firstOpen = () => {
    const given = of(sheet.items[place]);
    const found = sheet.questions.findIndex((question) => asked(question, given) && !given[question.name]);
    return found < 0 ? 0 : found;
  };
  const move = (to) => {
    if (to >= sheet.items.length) {
      const open = sheet.items.findIndex((item) => !done(item));
      const left = sheet.items.filter((item) => !done(item)).length;
      if (left) {
        place = open;
        told.textContent = `That was the last one; ${left} ${left === 1 ? "is" : "are"} left without an answer.`;
      } else {
        told.textContent = "All answered. Save the CSV file, and send it to whoever gave you this page.";
        at("save").focus();
      }
    } else {
      place = Math.max(0, to);
      told.textContent = "";
    }
    current = firstOpen();
    show();
  };
  const answer = (number, text) => {
    const item = sheet.items[place];
    const given = { ...of(item) };
    if (text === null) delete given[sheet.questions[number].name];
    else given[sheet.questions[number].name] = text;
    for (const question of sheet.questions) if (!asked(question, given)) delete given[question.name];
    answers[item.name] = given;
    unsaved = true;
    current = firstOpen();
    show();
  };
  const goOn = () => {
    if (done(sheet.items[place])) move(place + 1);
  };

  const formula = new RegExp(`^(?:${sheet.formula})`);
  const guard = (text) => (formula.test(text) ? `'${text}` : text);
  const quote = (text) => (/[",\n\r;\t]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const row = (item, name) => {
    const texts = sheet.heading ? [item.text] : [];
    return [item.name, ...texts, ...sheet.questions.map((question) => of(item)[question.name] || ""), name];
  };
  const save = () => {
    const name = rater.value.trim();
    if (!name) {
      told.textContent = "Write your name or initials first: answers are counted by rater.";
      rater.focus();
      return;
    }
    const rows = [sheet.columns, ...sheet.items.map((item) => row(item, name))];
    const text = rows.map((cells) => cells.map(guard).map(quote).join(",")).join("\n");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`\ufeff${text}\n`], { type: "text/csv" }));
    link.download = `rating-${name.replace(/[^\p{L}\p{N}_-]+/gu, "-").slice(0, 60)}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    unsaved = false;
    const left = sheet.items.filter((item) => !done(item)).length;
    told.textContent = left ? `Saved, with ${left} left without an answer.` : "Saved. Thank you.";
  };

  document.addEventListener("keydown", (event) => {
    pointed = false;
    const target = event.target;
    if (target === rater || event.ctrlKey || event.altKey || event.metaKey) return;
    const number = Number(event.key);
    if (event.key === "0") answer(current, null);
    else if (event.key >= "1" && event.key <= "9" && event.key.length === 1) {
      const text = sheet.questions[current].choices[number - 1];
      if (text === undefined) return;
      answer(current, text);
      goOn();
    } else if (event.key === "Backspace") move(place - 1);
    else if (event.key === "Enter" && target.tagName !== "BUTTON") move(place + 1);
    else return;
    event.preventDefault();
  });
  form.addEventListener("pointerdown", () => (pointed = true));
  form.addEventListener("submit", (event) => event.preventDefault());
  at("questions").addEventListener("focusin", (event) => {
    const number = fields().findIndex((field) => field.contains(event.target));
    if (number >= 0 && number !== current) {
      current = number;
      show();
    }
  });
  rater.addEventListener("input", remember);
  at("save").addEventListener("click", save);
  at("back").addEventListener("click", () => move(place - 1));
  at("next").addEventListener("click", () => move(place + 1));
  at("clear").addEventListener("click", () => {
    if (!confirm("Take away all answers and the name, for another rater?")) return;
    answers = {};
    rater.value = "";
    unsaved = false;
    move(0);
    rater.focus();
  });
  addEventListener("beforeunload", (event) => {
    if (unsaved && !kept) event.preventDefault();
  });

  recall();
  build();
  current = firstOpen();
  form.hidden = false;
  show();
})();
