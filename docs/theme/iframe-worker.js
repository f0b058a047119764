// A browser starts no worker for a page that is opened from disk: there the script of the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(path) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => setTimeout(() => this.onmessage?.({ data }));
      const script = inside.document.createElement("script");
      script.src = new URL(path, location);
      this.loaded = new Promise((done) => script.addEventListener("load", done));
      inside.document.body.append(script);
    }
    postMessage(data) {
      this.loaded.then(() => setTimeout(() => this.frame.contentWindow?.onmessage?.({ data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
